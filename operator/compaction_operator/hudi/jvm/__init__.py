"""Hudi in a JVM, reached by py4j: the only package that knows Hudi's classes and how its releases differ (`release`).

`client` is the whole that other packages use. The modules below it each talk to one part of Hudi: the timeline, plans,
writes, file groups and log files.
"""
