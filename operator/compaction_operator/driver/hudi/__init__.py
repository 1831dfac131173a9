"""The flow of one compaction of a Hudi table, its set-up, and the lease by which one driver works at a time."""
