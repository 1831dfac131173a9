"""The story of one compaction, played on a real cluster and told on standard output."""
