"""Real S3 servers for tests: MinIO and versitygw as processes of this machine."""
