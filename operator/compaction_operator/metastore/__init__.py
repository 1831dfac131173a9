"""The Hive metastore over Thrift: tables, partitions, write ids, locks and transactions."""
