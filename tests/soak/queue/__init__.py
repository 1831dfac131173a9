"""Entries of a pool of Hive 4's queue, with the operator's processes killed: each entry ends once, and right."""
