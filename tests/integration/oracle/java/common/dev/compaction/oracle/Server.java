package dev.compaction.oracle;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;

/** Answers requests, one JSON object a line on standard input, with one JSON object a line on standard output. */
public final class Server {
  private Server() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    System.setOut(System.err); // what Hive prints must not get between the answers
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      answers.println(answer(line));
      answers.flush();
    }
    Runtime.getRuntime().halt(0); // Hive's thread pools are no reason to stay
  }

  private static String answer(String line) {
    try {
      return handle(JsonParser.parseString(line).getAsJsonObject()).toString();
    } catch (Throwable error) {
      return describe(error).toString();
    }
  }

  private static JsonObject handle(JsonObject request) throws Exception {
    String operation = request.get("op").getAsString();
    switch (operation) {
      case "configure": return Settings.configure(request);
      case "read": return TableReader.read(request);
      case "plan": return TableReader.plan(request);
      case "read_plan": return TableReader.readPlan(request);
      case "state": return TableState.state(request);
      case "write": return TableWriter.write(request);
      case "write_file": return TableWriter.writeFile(request);
      case "truncate": return TableWriter.truncate(request);
      case "fill": return Bulk.fill(request);
      case "delete_rows": return Bulk.deleteRows(request);
      case "compact": return RawMerge.compact(request);
      case "checksum": return Checksum.checksum(request);
      case "search": return FileSearch.search(request);
      default: throw new IllegalArgumentException("no such operation: " + operation);
    }
  }

  /** The innermost cause says what happened; the trace says where. */
  private static JsonObject describe(Throwable error) {
    Throwable cause = error;
    while (cause.getCause() != null) cause = cause.getCause();
    StringWriter trace = new StringWriter();
    error.printStackTrace(new PrintWriter(trace));
    JsonObject answer = new JsonObject();
    answer.addProperty("error", cause.toString());
    answer.addProperty("trace", trace.toString());
    return answer;
  }
}
