"""A real Hive metastore 3.1.3 as a process of this machine."""
