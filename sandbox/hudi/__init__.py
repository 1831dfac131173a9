"""Hudi for tests and demos: its bundles, a Spark session with one of them, small tables, what lies in them, a lock server."""
