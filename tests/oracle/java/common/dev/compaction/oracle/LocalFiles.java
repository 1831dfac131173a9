package dev.compaction.oracle;

import org.apache.hadoop.fs.RawLocalFileSystem;

/** Local files without .crc files beside them; Hadoop's own class of that kind does not know its scheme. */
public final class LocalFiles extends RawLocalFileSystem {
  @Override
  public String getScheme() {
    return "file";
  }
}
