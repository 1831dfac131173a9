"""The flow of one compaction of a Hive ACID table, and what Hive 3.1 and Hive 4 want done differently in it."""
