"""A real Hive metastore, 3.1.3 or 4.0.1, as a process of this machine."""
