"""The merge of bucket files: reads their ACID events, merges them in key order, writes and verifies the output.

This is the uppermost layer; what others use of it, `compaction_operator.orc` hands out.
"""
