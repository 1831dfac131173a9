"""A real Hive metastore, 3.1.3, 4.0.1, 4.1.0 or 4.2.0, as a process of this machine."""
