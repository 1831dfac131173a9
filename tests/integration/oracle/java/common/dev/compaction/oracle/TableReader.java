package dev.compaction.oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatchCtx;
import org.apache.hadoop.hive.ql.io.AcidInputFormat;
import org.apache.hadoop.hive.ql.io.RecordIdentifier;
import org.apache.hadoop.hive.ql.io.orc.OrcFile;
import org.apache.hadoop.hive.ql.io.orc.OrcInputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcSplit;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.hive.ql.metadata.VirtualColumn;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/** `read`, or `plan` and `read_plan`: the rows of a table or partition directory and their ROW__IDs, as a query of this Hive sees them. */
final class TableReader {
  private TableReader() {}

  /** A query that knows its files: whatever becomes of the directory from here on, it reads these. */
  private static final class Plan {
    final JobConf conf;
    final String rowType;
    final StructTypeInfo rows;
    final boolean vectorized;
    final VectorizedRowBatchCtx context;
    final InputSplit[] splits;

    Plan(JsonObject request) throws Exception {
      String given = Settings.text(request, "row_type", null);
      rowType = given == null ? widestRowType(request) : given;
      rows = Settings.struct(rowType);
      conf = Settings.scan(request, rows);
      conf.set("mapreduce.input.fileinputformat.inputdir", Settings.path(request, "dir").toString());
      vectorized = request.has("vectorized") && request.get("vectorized").getAsBoolean();
      conf.setBoolean("hive.vectorized.execution.enabled", vectorized);
      context = batchContext(rows);
      if (vectorized) Dialect.planVectorized(conf, context);
      splits = splits(conf);
    }

    JsonObject read() throws Exception {
      if (vectorized) Dialect.planVectorized(conf, context); // another query may have planned meanwhile
      JsonArray result = new JsonArray();
      for (InputSplit split : splits) {
        if (vectorized) readBatches(Dialect.batches((OrcSplit) split, conf, context), rows, result);
        else readRows(split, conf, rows, result);
      }
      JsonObject answer = new JsonObject();
      answer.addProperty("row_type", rowType);
      answer.add("rows", result);
      return answer;
    }
  }

  private static final Map<Integer, Plan> PLANS = new HashMap<>();
  private static int planned = 0;

  static JsonObject read(JsonObject request) throws Exception {
    return new Plan(request).read();
  }

  /** The first half of `read`: the files are chosen, as when a query starts; `read_plan` opens them, once. */
  static JsonObject plan(JsonObject request) throws Exception {
    PLANS.put(++planned, new Plan(request));
    JsonObject answer = new JsonObject();
    answer.addProperty("plan", planned);
    return answer;
  }

  static JsonObject readPlan(JsonObject request) throws Exception {
    return PLANS.remove(request.get("plan").getAsInt()).read();
  }

  private static InputSplit[] splits(JobConf conf) throws IOException {
    InputSplit[] splits = new OrcInputFormat().getSplits(conf, 1);
    Arrays.sort(splits, Comparator.comparing(split -> ((OrcSplit) split).getPath().toString() + ((OrcSplit) split).getStart()));
    return splits;
  }

  private static void readRows(InputSplit split, JobConf conf, StructTypeInfo type, JsonArray result) throws IOException {
    ObjectInspector inspector = OrcStruct.createObjectInspector(type);
    RecordReader<NullWritable, OrcStruct> reader = new OrcInputFormat().getRecordReader(split, conf, Reporter.NULL);
    NullWritable key = reader.createKey();
    OrcStruct row = reader.createValue();
    while (reader.next(key, row)) {
      RecordIdentifier id = ((AcidInputFormat.AcidRecordReader<?, ?>) reader).getRecordIdentifier();
      result.add(row(id.getWriteId(), id.getBucketProperty(), id.getRowId(), Values.toJson(row, inspector)));
    }
    reader.close();
  }

  private static void readBatches(RecordReader<NullWritable, VectorizedRowBatch> reader, StructTypeInfo type, JsonArray result)
      throws IOException {
    int idColumn = type.getAllStructFieldNames().size();
    NullWritable key = reader.createKey();
    VectorizedRowBatch batch = reader.createValue();
    while (reader.next(key, batch)) {
      ColumnVector[] ids = ((StructColumnVector) batch.cols[idColumn]).fields;
      for (int i = 0; i < batch.size; i++) {
        int row = batch.selectedInUse ? batch.selected[i] : i;
        result.add(row(number(ids[0], row), number(ids[1], row), number(ids[2], row), VectorValues.fields(batch.cols, row, type)));
      }
    }
    reader.close();
  }

  private static long number(ColumnVector vector, int row) {
    return ((LongColumnVector) vector).vector[vector.isRepeating ? 0 : row];
  }

  private static JsonArray row(long writeId, long bucket, long rowId, JsonElement values) {
    JsonArray row = new JsonArray();
    row.add(writeId);
    row.add(bucket);
    row.add(rowId);
    row.add(values);
    return row;
  }

  /** All data columns and the virtual column ROW__ID, as the vectorizer would plan `select ROW__ID, *`. */
  private static VectorizedRowBatchCtx batchContext(StructTypeInfo rows) {
    List<String> names = rows.getAllStructFieldNames();
    List<TypeInfo> types = rows.getAllStructFieldTypeInfos();
    int columns = names.size();
    String[] allNames = names.toArray(new String[columns + 1]);
    TypeInfo[] allTypes = types.toArray(new TypeInfo[columns + 1]);
    allNames[columns] = VirtualColumn.ROWID.getName();
    allTypes[columns] = VirtualColumn.ROWID.getTypeInfo();
    int[] dataColumns = new int[columns];
    Arrays.setAll(dataColumns, i -> i);
    return new VectorizedRowBatchCtx(
        allNames, allTypes, null, dataColumns, 0, 1, new VirtualColumn[] {VirtualColumn.ROWID}, new String[0], null);
  }

  /** The row type of the file with the most columns: columns are only ever added. */
  private static String widestRowType(JsonObject request) throws IOException {
    JobConf conf = Settings.plain(request);
    StructTypeInfo widest = Settings.struct("struct<>");
    for (Path file : orcFiles(Settings.path(request, "dir"), conf)) {
      StructTypeInfo type = rowType(OrcFile.createReader(file, OrcFile.readerOptions(conf)).getSchema().toString());
      if (type.getAllStructFieldNames().size() > widest.getAllStructFieldNames().size()) widest = type;
    }
    return widest.getTypeName();
  }

  private static List<Path> orcFiles(Path directory, JobConf conf) throws IOException {
    List<Path> files = new ArrayList<>();
    RemoteIterator<LocatedFileStatus> all = directory.getFileSystem(conf).listFiles(directory, true);
    while (all.hasNext()) {
      Path file = all.next().getPath();
      if (isOrcFile(file.getName())) files.add(file);
    }
    files.sort(Comparator.reverseOrder());
    return files;
  }

  private static boolean isOrcFile(String name) {
    return !name.startsWith(".") && !name.startsWith("_") && !name.endsWith("_flush_length");
  }

  private static StructTypeInfo rowType(String schema) {
    StructTypeInfo type = Settings.struct(schema);
    boolean events = type.getAllStructFieldNames().get(0).equals("operation");
    return events ? (StructTypeInfo) type.getStructFieldTypeInfo("row") : type;
  }
}
