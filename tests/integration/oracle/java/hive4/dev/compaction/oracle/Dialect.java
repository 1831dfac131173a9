package dev.compaction.oracle;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.AcidMetaDataFile;
import org.apache.hadoop.hive.common.ValidWriteIdList;
import org.apache.hadoop.hive.metastore.TruncateBases;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.ql.exec.Utilities;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatchCtx;
import org.apache.hadoop.hive.ql.io.AcidDirectory;
import org.apache.hadoop.hive.ql.io.AcidInputFormat.RawReader;
import org.apache.hadoop.hive.ql.io.AcidOutputFormat;
import org.apache.hadoop.hive.ql.io.AcidUtils;
import org.apache.hadoop.hive.ql.io.orc.OrcInputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcSplit;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.hive.ql.plan.MapWork;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hive.common.util.Ref;

/** Where Hive 4.0.1's interfaces differ from Hive 3.1.3's. */
final class Dialect {
  private Dialect() {}

  static AcidDirectory acidState(Path directory, Configuration conf, ValidWriteIdList writeIds) throws IOException {
    return AcidUtils.getAcidState(directory.getFileSystem(conf), directory, conf, writeIds, Ref.from(false), false);
  }

  /** Obsolete and aborted directories are listed as paths here. */
  static Path path(Path path) {
    return path;
  }

  /** Hive 4 names a bucket after the attempt of the task that wrote it. */
  static void attempt(AcidOutputFormat.Options options, int attempt) {
    if (attempt >= 0) options.attemptId(attempt);
  }

  /** Writes the empty base of a TRUNCATE or DROP PARTITION; `format` is what its `_metadata_acid` says. */
  static void truncate(Path location, long writeId, Configuration conf, String format) throws IOException {
    try {
      TruncateBases.write(location, writeId, conf, AcidMetaDataFile.DataFormat.valueOf(format.toUpperCase(Locale.ROOT)));
    } catch (MetaException refused) {
      throw new IOException(refused);
    }
  }

  static RawReader<OrcStruct> rawReader(
      Configuration conf, boolean major, int bucket, ValidWriteIdList writeIds, Path base, Path[] deltas) throws IOException {
    return new OrcInputFormat().getRawReader(conf, major, bucket, writeIds, base, deltas, attempts(conf, bucket, base, deltas));
  }

  /** Returns by the directory's name which attempt's file it has for a bucket, where files are named so (MRCompactor). */
  private static Map<String, Integer> attempts(Configuration conf, int bucket, Path base, Path[] deltas) throws IOException {
    List<Path> directories = new ArrayList<>(List.of(deltas));
    if (base != null) directories.add(base);
    Map<String, Integer> attempts = new HashMap<>();
    for (Path directory : directories) {
      for (FileStatus file : directory.getFileSystem(conf).listStatus(directory)) {
        Integer attempt = AcidUtils.parseAttemptId(file.getPath());
        if (attempt != null && AcidUtils.parseBucketId(file.getPath()) == bucket) attempts.put(directory.getName(), attempt);
      }
    }
    return attempts;
  }

  /** Puts the plan of a vectorised query, as far as splits and readers look at it, where they look for it. */
  static void planVectorized(JobConf conf, VectorizedRowBatchCtx context) {
    MapWork work = new MapWork();
    work.setVectorMode(true);
    work.setVectorizedRowBatchCtx(context);
    conf.set("hive.exec.plan", "file:/plan");
    Utilities.setMapWork(conf, work);
  }

  @SuppressWarnings("unchecked") // an input format for rows hands out batches where the plan is vectorised
  static RecordReader<NullWritable, VectorizedRowBatch> batches(OrcSplit split, JobConf conf, VectorizedRowBatchCtx context)
      throws IOException {
    return (RecordReader<NullWritable, VectorizedRowBatch>) (RecordReader<?, ?>)
        new OrcInputFormat().getRecordReader(split, conf, Reporter.NULL);
  }
}
