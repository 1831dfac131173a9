"""The merge of partitions' files: cut into tasks, run locally or in Spark, verified and assembled in staging."""
