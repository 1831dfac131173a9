package dev.compaction.oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hive.common.type.HiveChar;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.common.type.HiveVarchar;
import org.apache.hadoop.hive.common.type.Timestamp;
import org.apache.hadoop.hive.common.type.TimestampTZ;
import org.apache.hadoop.hive.serde2.io.ByteWritable;
import org.apache.hadoop.hive.serde2.io.DateWritableV2;
import org.apache.hadoop.hive.serde2.io.DoubleWritable;
import org.apache.hadoop.hive.serde2.io.HiveCharWritable;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.hadoop.hive.serde2.io.HiveVarcharWritable;
import org.apache.hadoop.hive.serde2.io.ShortWritable;
import org.apache.hadoop.hive.serde2.io.TimestampLocalTZWritable;
import org.apache.hadoop.hive.serde2.io.TimestampWritableV2;
import org.apache.hadoop.hive.serde2.objectinspector.ListObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.MapObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.PrimitiveObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.StandardUnionObjectInspector.StandardUnion;
import org.apache.hadoop.hive.serde2.objectinspector.StructField;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.UnionObjectInspector;
import org.apache.hadoop.hive.serde2.typeinfo.CharTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.ListTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.MapTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.PrimitiveTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.UnionTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.VarcharTypeInfo;
import org.apache.hadoop.io.BooleanWritable;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.FloatWritable;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;

/** Hive's values as JSON and back, without loss. The README beside this folder describes the form of each type. */
final class Values {
  private Values() {}

  static JsonElement toJson(Object value, ObjectInspector inspector) {
    if (value == null) return JsonNull.INSTANCE;
    switch (inspector.getCategory()) {
      case STRUCT: return fields(value, (StructObjectInspector) inspector);
      case LIST: return elements(value, (ListObjectInspector) inspector);
      case MAP: return entries(value, (MapObjectInspector) inspector);
      case UNION: {
        UnionObjectInspector union = (UnionObjectInspector) inspector;
        int tag = union.getTag(value);
        return tagged(tag, toJson(union.getField(value), union.getObjectInspectors().get(tag)));
      }
      default: return primitive(((PrimitiveObjectInspector) inspector).getPrimitiveWritableObject(value));
    }
  }

  private static JsonArray fields(Object value, StructObjectInspector inspector) {
    JsonArray array = new JsonArray();
    for (StructField field : inspector.getAllStructFieldRefs())
      array.add(toJson(inspector.getStructFieldData(value, field), field.getFieldObjectInspector()));
    return array;
  }

  private static JsonArray elements(Object value, ListObjectInspector inspector) {
    JsonArray array = new JsonArray();
    for (int i = 0; i < inspector.getListLength(value); i++)
      array.add(toJson(inspector.getListElement(value, i), inspector.getListElementObjectInspector()));
    return array;
  }

  private static JsonArray entries(Object value, MapObjectInspector inspector) {
    JsonArray array = new JsonArray();
    for (Map.Entry<?, ?> entry : inspector.getMap(value).entrySet())
      array.add(entry(toJson(entry.getKey(), inspector.getMapKeyObjectInspector()),
          toJson(entry.getValue(), inspector.getMapValueObjectInspector())));
    return array;
  }

  private static JsonElement primitive(Object value) {
    if (value == null) return JsonNull.INSTANCE;
    if (value instanceof BooleanWritable) return new JsonPrimitive(((BooleanWritable) value).get());
    if (value instanceof ByteWritable) return new JsonPrimitive(((ByteWritable) value).get());
    if (value instanceof ShortWritable) return new JsonPrimitive(((ShortWritable) value).get());
    if (value instanceof IntWritable) return new JsonPrimitive(((IntWritable) value).get());
    if (value instanceof LongWritable) return new JsonPrimitive(((LongWritable) value).get());
    if (value instanceof FloatWritable) return real(((FloatWritable) value).get());
    if (value instanceof DoubleWritable) return real(((DoubleWritable) value).get());
    if (value instanceof HiveDecimalWritable) return decimal((HiveDecimalWritable) value);
    if (value instanceof HiveCharWritable) return string(((HiveCharWritable) value).getTextValue());
    if (value instanceof HiveVarcharWritable) return string(((HiveVarcharWritable) value).getTextValue());
    if (value instanceof Text) return string((Text) value);
    if (value instanceof BytesWritable) return binary(((BytesWritable) value).copyBytes());
    if (value instanceof DateWritableV2) return date(((DateWritableV2) value).getDays());
    if (value instanceof TimestampWritableV2) {
      Timestamp timestamp = ((TimestampWritableV2) value).getTimestamp();
      return timestamp(timestamp.toEpochSecond(), timestamp.getNanos());
    }
    TimestampTZ instant = ((TimestampLocalTZWritable) value).getTimestampTZ();
    return instant(instant.getEpochSecond(), instant.getNanos());
  }

  static JsonObject tagged(int tag, JsonElement value) {
    JsonObject union = new JsonObject();
    union.addProperty("tag", tag);
    union.add("value", value);
    return union;
  }

  static JsonArray entry(JsonElement key, JsonElement value) {
    JsonArray entry = new JsonArray();
    entry.add(key);
    entry.add(value);
    return entry;
  }

  /** A finite number as such (a float is exact as a double); what would compare wrongly as a string, an unusual NaN with its bits. */
  static JsonElement real(double value) {
    boolean negativeZero = value == 0 && 1 / value < 0;
    if (negativeZero || Double.isInfinite(value)) return new JsonPrimitive(Double.toString(value));
    if (!Double.isNaN(value)) return new JsonPrimitive(value);
    long bits = Double.doubleToRawLongBits(value);
    return new JsonPrimitive(bits == Double.doubleToRawLongBits(Double.NaN) ? "NaN" : "NaN:" + Long.toHexString(bits));
  }

  static JsonElement decimal(HiveDecimalWritable value) {
    return value.isSet() ? new JsonPrimitive(value.getHiveDecimal().toString()) : JsonNull.INSTANCE;
  }

  private static JsonElement string(Text text) {
    return string(text.getBytes(), 0, text.getLength());
  }

  /** A JSON string; bytes that are no UTF-8, which Hive does not forbid, as {"bytes": base64}. */
  static JsonElement string(byte[] bytes, int offset, int length) {
    try {
      return new JsonPrimitive(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes, offset, length)).toString());
    } catch (CharacterCodingException notUtf8) {
      JsonObject object = new JsonObject();
      object.add("bytes", binary(Arrays.copyOfRange(bytes, offset, offset + length)));
      return object;
    }
  }

  static JsonElement binary(byte[] bytes) {
    return new JsonPrimitive(Base64.getEncoder().encodeToString(bytes));
  }

  static JsonElement date(long days) {
    return new JsonPrimitive(LocalDate.ofEpochDay(days).toString());
  }

  static JsonElement timestamp(long seconds, int nanos) {
    return new JsonPrimitive(LocalDateTime.ofEpochSecond(seconds, nanos, ZoneOffset.UTC).toString());
  }

  static JsonElement instant(long seconds, int nanos) {
    return new JsonPrimitive(Instant.ofEpochSecond(seconds, nanos).toString());
  }

  /** The value as the standard writable object of its type. */
  static Object fromJson(JsonElement json, TypeInfo type) {
    if (json.isJsonNull()) return null;
    switch (type.getCategory()) {
      case STRUCT: return structure(json.getAsJsonArray(), (StructTypeInfo) type);
      case LIST: {
        List<Object> list = new ArrayList<>();
        for (JsonElement element : json.getAsJsonArray()) list.add(fromJson(element, ((ListTypeInfo) type).getListElementTypeInfo()));
        return list;
      }
      case MAP: {
        MapTypeInfo map = (MapTypeInfo) type;
        Map<Object, Object> entries = new LinkedHashMap<>();
        for (JsonElement entry : json.getAsJsonArray()) {
          JsonArray pair = entry.getAsJsonArray();
          entries.put(fromJson(pair.get(0), map.getMapKeyTypeInfo()), fromJson(pair.get(1), map.getMapValueTypeInfo()));
        }
        return entries;
      }
      case UNION: {
        byte tag = json.getAsJsonObject().get("tag").getAsByte();
        TypeInfo alternative = ((UnionTypeInfo) type).getAllUnionObjectTypeInfos().get(tag);
        return new StandardUnion(tag, fromJson(json.getAsJsonObject().get("value"), alternative));
      }
      default: return writable(json, (PrimitiveTypeInfo) type);
    }
  }

  static List<Object> structure(JsonArray json, StructTypeInfo type) {
    List<Object> values = new ArrayList<>();
    for (int i = 0; i < json.size(); i++) values.add(fromJson(json.get(i), type.getAllStructFieldTypeInfos().get(i)));
    return values;
  }

  private static Object writable(JsonElement json, PrimitiveTypeInfo type) {
    switch (type.getPrimitiveCategory()) {
      case BOOLEAN: return new BooleanWritable(json.getAsBoolean());
      case BYTE: return new ByteWritable(json.getAsByte());
      case SHORT: return new ShortWritable(json.getAsShort());
      case INT: return new IntWritable(json.getAsInt());
      case LONG: return new LongWritable(json.getAsLong());
      case FLOAT: return new FloatWritable((float) parseReal(json));
      case DOUBLE: return new DoubleWritable(parseReal(json));
      case DECIMAL: return new HiveDecimalWritable(HiveDecimal.create(json.getAsString()));
      case STRING: return new Text(parseString(json));
      case CHAR: return new HiveCharWritable(new HiveChar(json.getAsString(), ((CharTypeInfo) type).getLength()));
      case VARCHAR: return new HiveVarcharWritable(new HiveVarchar(json.getAsString(), ((VarcharTypeInfo) type).getLength()));
      case BINARY: return new BytesWritable(Base64.getDecoder().decode(json.getAsString()));
      case DATE: return new DateWritableV2((int) LocalDate.parse(json.getAsString()).toEpochDay());
      case TIMESTAMP: {
        LocalDateTime time = LocalDateTime.parse(json.getAsString());
        return new TimestampWritableV2(Timestamp.ofEpochSecond(time.toEpochSecond(ZoneOffset.UTC), time.getNano()));
      }
      case TIMESTAMPLOCALTZ: {
        Instant instant = Instant.parse(json.getAsString());
        return new TimestampLocalTZWritable(new TimestampTZ(instant.getEpochSecond(), instant.getNano(), ZoneOffset.UTC));
      }
      default: throw new IllegalArgumentException("no values of type " + type);
    }
  }

  private static double parseReal(JsonElement json) {
    String text = json.getAsString();
    return text.startsWith("NaN:") ? Double.longBitsToDouble(Long.parseUnsignedLong(text.substring(4), 16)) : Double.parseDouble(text);
  }

  private static byte[] parseString(JsonElement json) {
    if (json.isJsonObject()) return Base64.getDecoder().decode(json.getAsJsonObject().get("bytes").getAsString());
    return json.getAsString().getBytes(StandardCharsets.UTF_8);
  }
}
