"""Codecs for the streams of a stripe: run lengths, bit packing, compression, columns and Bloom filters."""
