"""A real HDFS for tests: a NameNode and a DataNode as processes of this machine."""
