package dev.compaction.oracle;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.Map;
import org.apache.hadoop.hive.ql.io.AcidInputFormat.RawReader;
import org.apache.hadoop.hive.ql.io.RecordIdentifier;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.hive.serde2.io.DoubleWritable;
import org.apache.hadoop.hive.serde2.objectinspector.ListObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.MapObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.PrimitiveObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.StructField;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.io.LongWritable;

/** `checksum`: one number for all rows (`major`) or events of one bucket in their order, each with its ROW__ID. */
final class Checksum {
  private static final long FACTOR = 0x9E3779B97F4A7C15L;

  private Checksum() {}

  static JsonObject checksum(JsonObject request) throws IOException {
    boolean major = request.get("major").getAsBoolean();
    RawReader<OrcStruct> reader = RawMerge.open(request);
    RecordIdentifier key = reader.createKey();
    OrcStruct event = reader.createValue();
    long rows = 0;
    long sum = 0;
    while (reader.next(key, event)) {
      if (major && reader.isDelete(event)) continue;
      sum = joined(sum, fold(event, reader.getObjectInspector()));
      rows++;
    }
    reader.close();
    JsonObject answer = new JsonObject();
    answer.addProperty("rows", rows);
    answer.addProperty("checksum", Long.toHexString(sum));
    return answer;
  }

  private static long joined(long sum, long value) {
    long mixed = (sum ^ value) * FACTOR;
    return mixed ^ (mixed >>> 29);
  }

  private static long fold(Object value, ObjectInspector inspector) {
    if (value == null) return 1;
    switch (inspector.getCategory()) {
      case STRUCT: return fields(value, (StructObjectInspector) inspector);
      case LIST: return elements(value, (ListObjectInspector) inspector);
      case MAP: return entries(value, (MapObjectInspector) inspector);
      default: return primitive(((PrimitiveObjectInspector) inspector).getPrimitiveWritableObject(value));
    }
  }

  private static long fields(Object value, StructObjectInspector inspector) {
    long sum = 2;
    for (StructField field : inspector.getAllStructFieldRefs())
      sum = joined(sum, fold(inspector.getStructFieldData(value, field), field.getFieldObjectInspector()));
    return sum;
  }

  private static long elements(Object value, ListObjectInspector inspector) {
    long sum = 3;
    for (Object element : inspector.getList(value)) sum = joined(sum, fold(element, inspector.getListElementObjectInspector()));
    return sum;
  }

  private static long entries(Object value, MapObjectInspector inspector) {
    long sum = 4;
    for (Map.Entry<?, ?> entry : inspector.getMap(value).entrySet()) {
      sum = joined(sum, fold(entry.getKey(), inspector.getMapKeyObjectInspector()));
      sum = joined(sum, fold(entry.getValue(), inspector.getMapValueObjectInspector()));
    }
    return sum;
  }

  /** NB: what Hadoop returns as the hash code of these two leaves out half of their bits. */
  private static long primitive(Object value) {
    if (value instanceof LongWritable) return ((LongWritable) value).get();
    if (value instanceof DoubleWritable) return Double.doubleToLongBits(((DoubleWritable) value).get());
    return value.hashCode();
  }
}
