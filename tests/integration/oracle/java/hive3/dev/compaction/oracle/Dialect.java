package dev.compaction.oracle;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.ValidWriteIdList;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatchCtx;
import org.apache.hadoop.hive.ql.io.AcidInputFormat.RawReader;
import org.apache.hadoop.hive.ql.io.AcidOutputFormat;
import org.apache.hadoop.hive.ql.io.AcidUtils;
import org.apache.hadoop.hive.ql.io.orc.OrcInputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcSplit;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.hive.ql.io.orc.VectorizedAcidReaders;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;

/** Where Hive 3.1.3's interfaces differ from Hive 4.0.1's. */
final class Dialect {
  private Dialect() {}

  static AcidUtils.Directory acidState(Path directory, Configuration conf, ValidWriteIdList writeIds) throws IOException {
    return AcidUtils.getAcidState(directory, conf, writeIds);
  }

  /** Obsolete and aborted directories are listed as file statuses here. */
  static Path path(FileStatus file) {
    return file.getPath();
  }

  /** Hive 3 has no attempt in the names of buckets. */
  static void attempt(AcidOutputFormat.Options options, int attempt) {
    if (attempt >= 0) throw new IllegalArgumentException("Hive 3 writes no attempt");
  }

  /** Hive 3 deletes all files when it truncates or drops. */
  static void truncate(Path location, long writeId, Configuration conf, String format) {
    throw new IllegalArgumentException("Hive 3 writes no base when it truncates");
  }

  static RawReader<OrcStruct> rawReader(
      Configuration conf, boolean major, int bucket, ValidWriteIdList writeIds, Path base, Path[] deltas) throws IOException {
    return new OrcInputFormat().getRawReader(conf, major, bucket, writeIds, base, deltas);
  }

  /** Hive 3 cannot find a plan on Java 17, as its Kryo looks into the JDK's classes: the reader is made by hand. */
  static void planVectorized(JobConf conf, VectorizedRowBatchCtx context) {}

  static RecordReader<NullWritable, VectorizedRowBatch> batches(OrcSplit split, JobConf conf, VectorizedRowBatchCtx context)
      throws IOException {
    return VectorizedAcidReaders.open(split, conf, context);
  }
}
