"""A real Kubernetes node and a real Hive metastore on this machine: the scripts that run them, and what tests ask."""
