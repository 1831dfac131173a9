package dev.compaction.oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.sql.Date;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.io.sarg.PredicateLeaf;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgumentFactory;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;

/** `search`: the rows of one ORC file that ORC's reader hands out under a predicate, by statistics, indexes and bloom filters. */
final class FileSearch {
  private FileSearch() {}

  static JsonObject search(JsonObject request) throws IOException {
    Reader reader = OrcFile.createReader(Settings.path(request, "file"), OrcFile.readerOptions(Settings.plain(request)).useUTCTimestamp(true));
    StructTypeInfo type = Settings.struct(reader.getSchema().toString());
    Reader.Options options = reader.options();
    if (request.has("predicate")) {
      String[] names = type.getAllStructFieldNames().toArray(new String[0]);
      options.searchArgument(predicate(request.getAsJsonObject("predicate")), names);
    }
    JsonArray rows = new JsonArray();
    try (RecordReader records = reader.rows(options)) {
      VectorizedRowBatch batch = reader.getSchema().createRowBatch();
      for (long start = records.getRowNumber(); records.nextBatch(batch); start = records.getRowNumber())
        for (int row = 0; row < batch.size; row++) rows.add(row(start + row, batch, row, type));
    }
    JsonObject answer = new JsonObject();
    answer.add("rows", rows);
    return answer;
  }

  private static JsonArray row(long number, VectorizedRowBatch batch, int row, StructTypeInfo type) {
    JsonArray pair = new JsonArray();
    pair.add(number);
    pair.add(VectorValues.fields(batch.cols, row, type));
    return pair;
  }

  private static SearchArgument predicate(JsonObject tree) {
    SearchArgument.Builder builder = SearchArgumentFactory.newBuilder();
    add(builder, tree);
    return builder.build();
  }

  /** {"and"|"or": [tree...]}, {"not": tree} or {"test": ..., "column": ..., "kind": ..., "values": [...]}. */
  private static void add(SearchArgument.Builder builder, JsonObject tree) {
    if (tree.has("and")) addAll(builder.startAnd(), tree.getAsJsonArray("and"));
    else if (tree.has("or")) addAll(builder.startOr(), tree.getAsJsonArray("or"));
    else if (tree.has("not")) {
      add(builder.startNot(), tree.getAsJsonObject("not"));
      builder.end();
    } else addLeaf(builder, tree);
  }

  private static void addAll(SearchArgument.Builder builder, JsonArray trees) {
    for (JsonElement tree : trees) add(builder, tree.getAsJsonObject());
    builder.end();
  }

  private static void addLeaf(SearchArgument.Builder builder, JsonObject leaf) {
    String column = leaf.get("column").getAsString();
    PredicateLeaf.Type kind = PredicateLeaf.Type.valueOf(leaf.get("kind").getAsString().toUpperCase());
    JsonArray json = leaf.has("values") ? leaf.getAsJsonArray("values") : new JsonArray();
    Object[] values = new Object[json.size()];
    for (int i = 0; i < values.length; i++) values[i] = literal(json.get(i), kind);
    switch (leaf.get("test").getAsString()) {
      case "equals": builder.equals(column, kind, values[0]); break;
      case "null_safe_equals": builder.nullSafeEquals(column, kind, values[0]); break;
      case "less_than": builder.lessThan(column, kind, values[0]); break;
      case "less_than_equals": builder.lessThanEquals(column, kind, values[0]); break;
      case "between": builder.between(column, kind, values[0], values[1]); break;
      case "in": builder.in(column, kind, values); break;
      case "is_null": builder.isNull(column, kind); break;
      default: throw new IllegalArgumentException("no such test: " + leaf.get("test"));
    }
  }

  private static Object literal(JsonElement value, PredicateLeaf.Type kind) {
    switch (kind) {
      case LONG: return value.getAsLong();
      case FLOAT: return value.getAsDouble();
      case STRING: return value.getAsString();
      case BOOLEAN: return value.getAsBoolean();
      case DECIMAL: return new HiveDecimalWritable(value.getAsString());
      case DATE: return Date.valueOf(LocalDate.parse(value.getAsString()));
      case TIMESTAMP: return Timestamp.from(LocalDateTime.parse(value.getAsString()).toInstant(ZoneOffset.UTC));
      default: throw new IllegalArgumentException("no literals of kind " + kind);
    }
  }
}
