package org.apache.hadoop.hive.metastore;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.AcidMetaDataFile.DataFormat;
import org.apache.hadoop.hive.metastore.api.MetaException;

/** In Hive's package, as only from there its metastore's writer of TRUNCATE and DROP PARTITION can be called. */
public final class TruncateBases {
  private TruncateBases() {}

  public static void write(Path location, long writeId, Configuration conf, DataFormat format) throws MetaException {
    HMSHandler.addTruncateBaseFile(location, writeId, conf, format);
  }
}
