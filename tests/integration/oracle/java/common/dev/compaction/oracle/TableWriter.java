package dev.compaction.oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.TimeZone;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.io.AcidOutputFormat;
import org.apache.hadoop.hive.ql.io.RecordUpdater;
import org.apache.hadoop.hive.ql.io.orc.OrcFile;
import org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat;
import org.apache.hadoop.hive.ql.io.orc.Writer;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.Reporter;

/** `write`, `write_file` and `truncate`: files as this Hive's own writer makes them. */
final class TableWriter {
  private static final String ID_FIELD = "row__id:struct<writeid:bigint,bucketid:int,rowid:bigint>";

  private TableWriter() {}

  /** What one task of a statement writes: one bucket of a delta, its delete delta, or a base. */
  static JsonObject write(JsonObject request) throws IOException {
    JsonArray events = request.getAsJsonArray("events");
    boolean withIds = false;
    for (JsonElement event : events) withIds |= hasId(event.getAsJsonArray().get(0).getAsString());
    StructTypeInfo type = Settings.struct(request.get("row_type").getAsString());
    RecordUpdater updater = updater(request, type, withIds);
    for (JsonElement event : events) apply(updater, event.getAsJsonArray(), type, withIds);
    updater.close(false);
    return new JsonObject();
  }

  /** What the metastore writes for a TRUNCATE or a DROP PARTITION. */
  static JsonObject truncate(JsonObject request) throws IOException {
    long writeId = request.get("write_id").getAsLong();
    Dialect.truncate(Settings.path(request, "dir"), writeId, Settings.plain(request), request.get("format").getAsString());
    return new JsonObject();
  }

  static RecordUpdater updater(JsonObject request, StructTypeInfo type, boolean withIds) throws IOException {
    return new OrcOutputFormat().getRecordUpdater(Settings.path(request, "dir"), options(request, type, withIds));
  }

  private static AcidOutputFormat.Options options(JsonObject request, StructTypeInfo type, boolean withIds) {
    long writeId = request.get("write_id").getAsLong();
    AcidOutputFormat.Options options = new AcidOutputFormat.Options(Settings.plain(request))
        .inspector(inspector(type, withIds))
        .bucket(request.get("bucket").getAsInt())
        .writingBase(request.get("base").getAsBoolean())
        .minimumWriteId(writeId)
        .maximumWriteId(request.has("max_write_id") ? request.get("max_write_id").getAsLong() : writeId)
        .statementId(Settings.number(request, "statement", -1))
        .finalDestination(Settings.path(request, "dir"))
        .tableProperties(Settings.tableProperties(request))
        .reporter(Reporter.NULL);
    Dialect.attempt(options, Settings.number(request, "attempt", -1));
    return withIds ? options.recordIdColumn(0) : options;
  }

  private static ObjectInspector inspector(StructTypeInfo type, boolean withIds) {
    String fields = type.getTypeName().substring("struct<".length());
    String name = withIds ? "struct<" + ID_FIELD + "," + fields : type.getTypeName();
    return TypeInfoUtils.getStandardWritableObjectInspectorFromTypeInfo(TypeInfoUtils.getTypeInfoFromTypeString(name));
  }

  private static boolean hasId(String kind) {
    return kind.equals("update") || kind.equals("delete");
  }

  /** ["insert", write id, row], ["update", write id, row id, row], ["delete", write id, row id] or ["flush"]. */
  private static void apply(RecordUpdater updater, JsonArray event, StructTypeInfo type, boolean withIds) throws IOException {
    String kind = event.get(0).getAsString();
    if (kind.equals("flush")) {
      updater.flush();
      return;
    }
    long writeId = event.get(1).getAsLong();
    List<Object> row = new ArrayList<>();
    if (withIds) row.add(hasId(kind) ? rowId(event.get(2).getAsJsonArray()) : null);
    if (kind.equals("delete")) type.getAllStructFieldNames().forEach(name -> row.add(null));
    else row.addAll(Values.structure(event.get(event.size() - 1).getAsJsonArray(), type));
    if (kind.equals("insert")) updater.insert(writeId, row);
    else if (kind.equals("update")) updater.update(writeId, row);
    else updater.delete(writeId, row);
  }

  private static List<Object> rowId(JsonArray id) {
    return rowId(id.get(0).getAsLong(), id.get(1).getAsInt(), id.get(2).getAsLong());
  }

  static List<Object> rowId(long writeId, int bucket, long row) {
    return List.of(new LongWritable(writeId), new IntWritable(bucket), new LongWritable(row));
  }

  /** A plain ORC file without events: an original, or what LOAD DATA takes in. */
  static JsonObject writeFile(JsonObject request) throws IOException {
    String zone = Settings.text(request, "time_zone", null);
    TimeZone usual = TimeZone.getDefault();
    if (zone != null) TimeZone.setDefault(TimeZone.getTimeZone(zone));
    try {
      writePlain(request, zone == null);
    } finally {
      TimeZone.setDefault(usual);
    }
    return new JsonObject();
  }

  private static void writePlain(JsonObject request, boolean utc) throws IOException {
    JobConf conf = Settings.plain(request);
    Path path = Settings.path(request, "path");
    StructTypeInfo type = Settings.struct(request.get("row_type").getAsString());
    OrcFile.WriterOptions options = OrcFile.writerOptions(Settings.tableProperties(request), conf);
    options.inspector(inspector(type, false)).fileSystem(path.getFileSystem(conf)).useUTCTimestamp(utc);
    Writer writer = OrcFile.createWriter(path, options);
    for (JsonElement row : request.getAsJsonArray("rows")) writer.addRow(Values.structure(row.getAsJsonArray(), type));
    writer.close();
  }
}
