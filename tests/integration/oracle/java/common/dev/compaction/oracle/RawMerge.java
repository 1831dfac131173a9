package dev.compaction.oracle;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.FileSinkOperator.RecordWriter;
import org.apache.hadoop.hive.ql.io.AcidInputFormat.RawReader;
import org.apache.hadoop.hive.ql.io.AcidOutputFormat;
import org.apache.hadoop.hive.ql.io.RecordIdentifier;
import org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.Reporter;

/** `compact`: what one mapper of Hive's compactor does with one bucket (CompactorMR.CompactorMap); nothing is published. */
final class RawMerge {
  private RawMerge() {}

  static JsonObject compact(JsonObject request) throws IOException {
    boolean major = request.get("major").getAsBoolean();
    RawReader<OrcStruct> reader = open(request);
    AcidOutputFormat.Options options = options(request, reader).writingBase(major);
    merge(reader, Settings.path(request, "output"), options, major);
    return new JsonObject();
  }

  /** Opens the events of one bucket of the directories, in the order of their keys. */
  static RawReader<OrcStruct> open(JsonObject request) throws IOException {
    boolean major = request.get("major").getAsBoolean();
    JobConf conf = Settings.scan(request, Settings.struct(request.get("row_type").getAsString()));
    Path base = request.has("base") ? Settings.path(request, "base") : null;
    List<Path> deltas = new ArrayList<>();
    for (JsonElement delta : request.getAsJsonArray("deltas")) deltas.add(Settings.path(delta));
    return Dialect.rawReader(
        conf, major, request.get("bucket").getAsInt(), Settings.writeIds(request), base, deltas.toArray(new Path[0]));
  }

  private static AcidOutputFormat.Options options(JsonObject request, RawReader<OrcStruct> reader) {
    return new AcidOutputFormat.Options(Settings.plain(request))
        .inspector(reader.getObjectInspector())
        .tableProperties(Settings.tableProperties(request))
        .reporter(Reporter.NULL)
        .minimumWriteId(request.get("min_write_id").getAsLong())
        .maximumWriteId(request.get("max_write_id").getAsLong())
        .bucket(request.get("bucket").getAsInt())
        .statementId(-1);
  }

  private static void merge(RawReader<OrcStruct> reader, Path output, AcidOutputFormat.Options options, boolean major) throws IOException {
    OrcOutputFormat format = new OrcOutputFormat();
    RecordWriter rows = format.getRawRecordWriter(output, options);
    RecordWriter deletes = null;
    RecordIdentifier key = reader.createKey();
    OrcStruct event = reader.createValue();
    while (reader.next(key, event)) {
      if (!reader.isDelete(event)) {
        rows.write(event);
      } else if (!major) {
        if (deletes == null) deletes = format.getRawRecordWriter(output, options.clone().writingDeleteDelta(true));
        deletes.write(event);
      }
    }
    rows.close(false);
    if (deletes != null) deletes.close(false);
    reader.close();
  }
}
