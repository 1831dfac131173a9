"""Hudi for tests and demos: its bundles, Spark with one of them, small tables, what lies in them, a lock server."""
