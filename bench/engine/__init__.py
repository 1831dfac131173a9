"""The engine against cp, Hive and Spark: the same compactions of the same tables, in turns within one run."""
