"""Streams of a stripe: run lengths, bit packing, compression, columns in memory, bloom filters."""
