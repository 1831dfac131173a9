"""Compaction of one Hudi table: its set-up, its flow, and the lease that admits one driver at a time."""
