package dev.compaction.oracle;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.ValidReaderWriteIdList;
import org.apache.hadoop.hive.common.ValidWriteIdList;
import org.apache.hadoop.hive.ql.io.AcidUtils;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.mapred.JobConf;

/** What a request says about snapshot, columns and ORC, in the configuration where Hive looks for it. */
final class Settings {
  private static final String ALL_TXNS = Long.MAX_VALUE + ":" + Long.MAX_VALUE + "::";
  private static final String ALL_WRITE_IDS = "oracle.table:" + ALL_TXNS;

  private static final JobConf DEFAULTS = defaults(); // read once: it is the better part of a short request

  private Settings() {}

  static String text(JsonObject request, String name, String otherwise) {
    JsonElement value = request.get(name);
    return value == null || value.isJsonNull() ? otherwise : value.getAsString();
  }

  static int number(JsonObject request, String name, int otherwise) {
    JsonElement value = request.get(name);
    return value == null || value.isJsonNull() ? otherwise : value.getAsInt();
  }

  static Path path(JsonObject request, String name) {
    return path(request.get(name));
  }

  /** A local path, or the URI of another store. */
  static Path path(JsonElement name) {
    String text = name.getAsString();
    return new Path(text.startsWith("/") ? "file://" + text : text);
  }

  static ValidWriteIdList writeIds(JsonObject request) {
    ValidWriteIdList parsed = new ValidReaderWriteIdList();
    parsed.readFromString(text(request, "write_ids", ALL_WRITE_IDS)); // which all versions have
    return parsed;
  }

  static StructTypeInfo struct(String rowType) {
    return (StructTypeInfo) TypeInfoUtils.getTypeInfoFromTypeString(rowType);
  }

  /** The configuration of a scan of one full-ACID table's directory by the snapshot of the request. */
  static JobConf scan(JsonObject request) {
    JobConf conf = plain(request);
    conf.set("hive.txn.valid.writeids", text(request, "write_ids", ALL_WRITE_IDS));
    conf.set("hive.txn.valid.txns", text(request, "txns", ALL_TXNS));
    conf.setBoolean("hive.acid.table.scan", true);
    conf.setBoolean("hive.transactional.table.scan", true);
    conf.set("transactional", "true");
    conf.set("transactional_properties", "default");
    AcidUtils.setAcidOperationalProperties(conf, true, AcidUtils.AcidOperationalProperties.getDefault());
    conf.setInt("bucket_count", number(request, "buckets", -1));
    // A split for each file, without a look into its footer; nothing about a directory is remembered.
    conf.set("hive.exec.orc.split.strategy", "BI");
    conf.set("hive.orc.splits.include.fileid", "false");
    conf.set("hive.txn.acid.dir.cache.duration", "0");
    return conf;
  }

  /** The same with the table's columns. */
  static JobConf scan(JsonObject request, StructTypeInfo rows) {
    JobConf conf = scan(request);
    String names = String.join(",", rows.getAllStructFieldNames());
    String types = rows.getAllStructFieldTypeInfos().stream().map(TypeInfo::getTypeName).collect(Collectors.joining(":"));
    for (String key : List.of("columns", "schema.evolution.columns")) conf.set(key, names);
    for (String key : List.of("columns.types", "schema.evolution.columns.types")) conf.set(key, types);
    return conf;
  }

  /** Local files where a path names no other store, and the request's `settings` (as orc.compress). */
  static JobConf plain(JsonObject request) {
    JobConf conf = new JobConf(DEFAULTS);
    given(request).forEach(setting -> conf.set(setting.getKey(), setting.getValue().getAsString()));
    return conf;
  }

  /** How to reach a store, for all requests from here on. */
  static JsonObject configure(JsonObject request) {
    given(request).forEach(setting -> DEFAULTS.set(setting.getKey(), setting.getValue().getAsString()));
    return new JsonObject();
  }

  private static JobConf defaults() {
    JobConf conf = new JobConf(false);
    conf.addResource("core-default.xml");
    conf.set("fs.defaultFS", "file:///");
    conf.setClass("fs.file.impl", LocalFiles.class, FileSystem.class);
    return conf;
  }

  /** The request's `settings` as a table's properties. */
  static Properties tableProperties(JsonObject request) {
    Properties properties = new Properties();
    given(request).forEach(setting -> properties.setProperty(setting.getKey(), setting.getValue().getAsString()));
    return properties;
  }

  private static Set<Map.Entry<String, JsonElement>> given(JsonObject request) {
    return request.has("settings") ? request.getAsJsonObject("settings").entrySet() : Set.of();
  }
}
