"""The sandbox: a real Kubernetes node and a real Hive metastore on this machine."""
