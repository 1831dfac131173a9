"""Hive ACID on disk, decided from values alone: names, write ids, the snapshot of a directory, the compaction plan."""
