package dev.compaction.oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.hive.ql.io.RecordUpdater;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;

/** `fill` and `delete_rows`: deltas too large to send their rows here one by one. */
final class Bulk {
  /** The bucket property of bucket 0 and statement 0. */
  private static final int BUCKET = 1 << 29;

  private Bulk() {}

  /** Writes so many random rows into a delta or base. */
  static JsonObject fill(JsonObject request) throws IOException {
    StructTypeInfo type = Settings.struct(request.get("row_type").getAsString());
    RandomRows rows = new RandomRows(type, request);
    long writeId = request.get("write_id").getAsLong();
    RecordUpdater updater = TableWriter.updater(request, type, false);
    for (long left = request.get("rows").getAsLong(); left > 0; left--) updater.insert(writeId, rows.next());
    updater.close(false);
    return new JsonObject();
  }

  /**
   * Writes a delete delta of rows of `ranges` ([write id, first row, end]). Each row draws a number from 0 to 1, the same
   * in each request, and the row is deleted if the number lies within `drawn`: requests can so delete different rows.
   */
  static JsonObject deleteRows(JsonObject request) throws IOException {
    StructTypeInfo type = Settings.struct(request.get("row_type").getAsString());
    double low = request.getAsJsonArray("drawn").get(0).getAsDouble();
    double high = request.getAsJsonArray("drawn").get(1).getAsDouble();
    long writeId = request.get("write_id").getAsLong();
    Random random = new Random(1);
    long deleted = 0;
    RecordUpdater updater = TableWriter.updater(request, type, true);
    for (JsonElement element : request.getAsJsonArray("ranges")) {
      JsonArray range = element.getAsJsonArray();
      for (long row = range.get(1).getAsLong(); row < range.get(2).getAsLong(); row++) {
        double number = random.nextDouble();
        if (number < low || number >= high) continue;
        updater.delete(writeId, deletion(type, range.get(0).getAsLong(), row));
        deleted++;
      }
    }
    updater.close(false);
    JsonObject answer = new JsonObject();
    answer.addProperty("deleted", deleted);
    return answer;
  }

  private static List<Object> deletion(StructTypeInfo type, long writeId, long row) {
    Object[] values = new Object[1 + type.getAllStructFieldNames().size()];
    values[0] = TableWriter.rowId(writeId, BUCKET, row);
    return new ArrayList<>(Arrays.asList(values));
  }
}
