"""The flow of one compaction of a Hive ACID table, and the steps that differ between Hive 3.1 and Hive 4."""
