package dev.compaction.oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonPrimitive;
import java.math.BigDecimal;
import java.util.Arrays;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.Decimal64ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.hadoop.hive.serde2.objectinspector.PrimitiveObjectInspector.PrimitiveCategory;
import org.apache.hadoop.hive.serde2.typeinfo.ListTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.MapTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.PrimitiveTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.UnionTypeInfo;

/** Values of Hive's column vectors as JSON, in the same form as {@link Values}. */
final class VectorValues {
  private VectorValues() {}

  static JsonElement toJson(ColumnVector vector, int index, TypeInfo type) {
    int row = vector.isRepeating ? 0 : index;
    if (!vector.noNulls && vector.isNull[row]) return JsonNull.INSTANCE;
    switch (type.getCategory()) {
      case STRUCT: return fields(((StructColumnVector) vector).fields, row, (StructTypeInfo) type);
      case LIST: return elements((ListColumnVector) vector, row, ((ListTypeInfo) type).getListElementTypeInfo());
      case MAP: return entries((MapColumnVector) vector, row, (MapTypeInfo) type);
      case UNION: {
        UnionColumnVector union = (UnionColumnVector) vector;
        int tag = union.tags[row];
        return Values.tagged(tag, toJson(union.fields[tag], row, ((UnionTypeInfo) type).getAllUnionObjectTypeInfos().get(tag)));
      }
      default: return primitive(vector, row, ((PrimitiveTypeInfo) type).getPrimitiveCategory());
    }
  }

  static JsonArray fields(ColumnVector[] vectors, int row, StructTypeInfo type) {
    JsonArray array = new JsonArray();
    for (int i = 0; i < type.getAllStructFieldTypeInfos().size(); i++)
      array.add(toJson(vectors[i], row, type.getAllStructFieldTypeInfos().get(i)));
    return array;
  }

  private static JsonArray elements(ListColumnVector vector, int row, TypeInfo type) {
    JsonArray array = new JsonArray();
    for (long i = vector.offsets[row]; i < vector.offsets[row] + vector.lengths[row]; i++)
      array.add(toJson(vector.child, (int) i, type));
    return array;
  }

  private static JsonArray entries(MapColumnVector vector, int row, MapTypeInfo type) {
    JsonArray array = new JsonArray();
    for (long i = vector.offsets[row]; i < vector.offsets[row] + vector.lengths[row]; i++)
      array.add(Values.entry(toJson(vector.keys, (int) i, type.getMapKeyTypeInfo()),
          toJson(vector.values, (int) i, type.getMapValueTypeInfo())));
    return array;
  }

  private static JsonElement primitive(ColumnVector vector, int row, PrimitiveCategory category) {
    switch (category) {
      case BOOLEAN: return new JsonPrimitive(((LongColumnVector) vector).vector[row] != 0);
      case BYTE: case SHORT: case INT: case LONG: return new JsonPrimitive(((LongColumnVector) vector).vector[row]);
      case DATE: return Values.date(((LongColumnVector) vector).vector[row]);
      case FLOAT: case DOUBLE: return Values.real(((DoubleColumnVector) vector).vector[row]);
      case DECIMAL: return decimal(vector, row);
      case TIMESTAMP: case TIMESTAMPLOCALTZ: return time((TimestampColumnVector) vector, row, category);
      default: return bytes((BytesColumnVector) vector, row, category);
    }
  }

  /** Up to 18 digits may come as a long. */
  private static JsonElement decimal(ColumnVector vector, int row) {
    if (vector instanceof DecimalColumnVector) return Values.decimal(((DecimalColumnVector) vector).vector[row]);
    Decimal64ColumnVector scaled = (Decimal64ColumnVector) vector;
    return Values.decimal(new HiveDecimalWritable(HiveDecimal.create(BigDecimal.valueOf(scaled.vector[row], scaled.scale))));
  }

  private static JsonElement time(TimestampColumnVector vector, int row, PrimitiveCategory category) {
    long seconds = Math.floorDiv(vector.time[row], 1000L);
    int nanos = vector.nanos[row];
    return category == PrimitiveCategory.TIMESTAMP ? Values.timestamp(seconds, nanos) : Values.instant(seconds, nanos);
  }

  private static JsonElement bytes(BytesColumnVector vector, int row, PrimitiveCategory category) {
    int start = vector.start[row];
    int length = vector.length[row];
    if (category != PrimitiveCategory.BINARY) return Values.string(vector.vector[row], start, length);
    return Values.binary(Arrays.copyOfRange(vector.vector[row], start, start + length));
  }
}
