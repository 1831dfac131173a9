package org.apache.hadoop.hive.ql.io.orc;

import java.io.IOException;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatchCtx;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/** In Hive's package, as only from there its vectorised reader can be made without the plan of a query. */
public final class VectorizedAcidReaders {
  private VectorizedAcidReaders() {}

  public static RecordReader<NullWritable, VectorizedRowBatch> open(OrcSplit split, JobConf conf, VectorizedRowBatchCtx context)
      throws IOException {
    return new VectorizedOrcAcidRowBatchReader(split, conf, Reporter.NULL, context);
  }
}
