"""ACID events of bucket files: opened, merged in the order of their keys, written and verified."""
