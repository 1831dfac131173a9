"""The merge of bucket files: reads their ACID events, merges them in key order, writes and verifies the output."""
