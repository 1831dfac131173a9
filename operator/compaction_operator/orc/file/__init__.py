"""Whole ORC files: tails and stripes to read, copy and write, with their statistics and indexes."""
