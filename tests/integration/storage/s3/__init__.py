"""S3 as a storage, on real servers."""
