package dev.compaction.oracle;

import java.io.IOException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Local files without .crc files beside them, and without Hadoop's child processes (`ls`, `chmod`) for permissions. */
public final class LocalFiles extends RawLocalFileSystem {
  @Override
  public String getScheme() {
    return "file";
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    return plain(super.getFileStatus(path));
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    FileStatus[] found = super.listStatus(path);
    for (int i = 0; i < found.length; i++) found[i] = plain(found[i]);
    return found;
  }

  @Override
  public void setPermission(Path path, FsPermission permission) {}

  private static FileStatus plain(FileStatus file) {
    return new FileStatus(
        file.getLen(), file.isDirectory(), file.getReplication(), file.getBlockSize(), file.getModificationTime(), file.getPath());
  }
}
