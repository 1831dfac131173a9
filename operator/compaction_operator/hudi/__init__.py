"""Hudi tables: what their timeline and log files ask for, decided as values, and Hudi's own client by py4j."""
