package dev.compaction.oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.IOException;
import java.util.stream.Stream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.io.AcidUtils;

/** `state`: which directories and files of a partition this Hive would read, and which are obsolete or aborted. */
final class TableState {
  private TableState() {}

  static JsonObject state(JsonObject request) throws IOException {
    var found = Dialect.acidState(Settings.path(request, "dir"), Settings.scan(request), Settings.writeIds(request));
    JsonObject answer = new JsonObject();
    answer.add("base", found.getBaseDirectory() == null ? JsonNull.INSTANCE : name(found.getBaseDirectory()));
    answer.add("current", names(found.getCurrentDirectories().stream().map(AcidUtils.ParsedDelta::getPath)));
    answer.add("obsolete", names(found.getObsolete().stream().map(Dialect::path)));
    Stream<Path> originals = found.getOriginalFiles().stream().map(file -> file.getFileStatus().getPath());
    answer.add("originals", pathsBelow(Settings.path(request, "dir"), originals));
    answer.add("aborted", names(found.getAbortedDirectories().stream().map(Dialect::path)));
    return answer;
  }

  /** Originals may lie in the sub-directories of a UNION ALL. */
  private static JsonArray pathsBelow(Path location, Stream<Path> files) {
    JsonArray paths = new JsonArray();
    files.forEach(file -> paths.add(new JsonPrimitive(location.toUri().relativize(file.toUri()).getPath())));
    return paths;
  }

  private static JsonArray names(Stream<Path> paths) {
    JsonArray names = new JsonArray();
    paths.forEach(path -> names.add(name(path)));
    return names;
  }

  private static JsonElement name(Path path) {
    return new JsonPrimitive(path.getName());
  }
}
