"""A metastore and an HDFS in one realm: clients, and the operator from a compaction to the last deletion."""
