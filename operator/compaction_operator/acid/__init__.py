"""Hive ACID on disk as pure functions of values: names, write ids, directory snapshots and compaction plans."""
