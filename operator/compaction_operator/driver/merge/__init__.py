"""Merging the files of partitions: cut into tasks, run here or in Spark, checked and assembled in staging."""
