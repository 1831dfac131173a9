"""Hudi tables: decisions about their timeline and log files, made on plain values, and Hudi itself in a JVM."""
