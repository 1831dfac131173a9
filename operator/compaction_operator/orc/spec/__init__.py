"""The ORC specification as data: protobuf messages, type trees, and the meaning of stored values."""
