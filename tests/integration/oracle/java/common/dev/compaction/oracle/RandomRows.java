package dev.compaction.oracle;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.common.type.Timestamp;
import org.apache.hadoop.hive.serde2.io.DoubleWritable;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.hadoop.hive.serde2.io.TimestampWritableV2;
import org.apache.hadoop.hive.serde2.typeinfo.DecimalTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.ListTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.MapTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.PrimitiveTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.io.BooleanWritable;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;

/**
 * Rows as a shop's table has them, the same for the same seed: a column `id` counts, strings are words of a `vocabulary`
 * (its size by the column's name) or else differ in each row, and one in fifty of those is null.
 */
final class RandomRows {
  private static final long FIRST_MILLISECOND = 1_500_000_000_000L;
  private static final long MILLISECONDS = 200_000_000_000L;
  private static final int MOST_ELEMENTS = 3;

  private final StructTypeInfo type;
  private final Random random;
  private final Map<String, Text[]> vocabularies = new HashMap<>();
  private long next;

  RandomRows(StructTypeInfo type, JsonObject request) {
    this.type = type;
    random = new Random(request.get("seed").getAsLong());
    next = request.get("first_id").getAsLong();
    request.getAsJsonObject("vocabularies").entrySet().forEach(
        words -> vocabularies.put(words.getKey(), vocabulary(words.getKey(), words.getValue().getAsInt())));
  }

  List<Object> next() {
    List<Object> row = structure(type);
    next++;
    return row;
  }

  private static Text[] vocabulary(String name, int size) {
    Text[] words = new Text[size];
    Random letters = new Random(size);
    for (int i = 0; i < size; i++) words[i] = new Text(name + "-" + Integer.toString(letters.nextInt(1 << 30), 36));
    return words;
  }

  private List<Object> structure(StructTypeInfo struct) {
    List<Object> values = new ArrayList<>();
    List<TypeInfo> types = struct.getAllStructFieldTypeInfos();
    for (int i = 0; i < types.size(); i++) values.add(value(struct.getAllStructFieldNames().get(i), types.get(i)));
    return values;
  }

  private Object value(String name, TypeInfo kind) {
    switch (kind.getCategory()) {
      case STRUCT: return structure((StructTypeInfo) kind);
      case LIST: {
        List<Object> values = new ArrayList<>();
        for (int left = random.nextInt(MOST_ELEMENTS + 1); left > 0; left--)
          values.add(value(name, ((ListTypeInfo) kind).getListElementTypeInfo()));
        return values;
      }
      case MAP: {
        MapTypeInfo map = (MapTypeInfo) kind;
        Map<Object, Object> entries = new LinkedHashMap<>();
        for (int left = random.nextInt(MOST_ELEMENTS + 1); left > 0; left--)
          entries.put(value(name, map.getMapKeyTypeInfo()), value(name, map.getMapValueTypeInfo()));
        return entries;
      }
      default: return primitive(name, (PrimitiveTypeInfo) kind);
    }
  }

  private Object primitive(String name, PrimitiveTypeInfo kind) {
    switch (kind.getPrimitiveCategory()) {
      case BOOLEAN: return new BooleanWritable(random.nextBoolean());
      case INT: return new IntWritable(random.nextInt(1_000_000));
      case LONG: return new LongWritable(name.equals("id") ? next : random.nextLong() >>> 24);
      case DOUBLE: return new DoubleWritable(random.nextGaussian() * 1000);
      case DECIMAL:
        int scale = ((DecimalTypeInfo) kind).getScale();
        return new HiveDecimalWritable(HiveDecimal.create(random.nextInt(10_000_000)).scaleByPowerOfTen(-scale));
      case TIMESTAMP:
        return new TimestampWritableV2(Timestamp.ofEpochMilli(FIRST_MILLISECOND + (long) (random.nextDouble() * MILLISECONDS)));
      case STRING: return string(name);
      default: throw new IllegalArgumentException("no values for " + kind);
    }
  }

  private Text string(String name) {
    Text[] words = vocabularies.get(name);
    if (words != null) return words[random.nextInt(words.length)];
    String user = Integer.toString(random.nextInt(100_000_000), 36) + "-" + Integer.toHexString(random.nextInt(1 << 24));
    return random.nextInt(50) == 0 ? null : new Text("user-" + user);
  }
}
