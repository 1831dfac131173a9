"""What runs in the driver: the flow of one compaction, how work is cut into Spark tasks, and publishing."""
