"""Whole ORC files: tails, stripes read, copied and built, statistics and indexes."""
