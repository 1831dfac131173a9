"""What becomes of a CompactionCleanup: the next step as a pure decision, and when which readers are looked at."""
