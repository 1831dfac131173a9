"""Hudi in a JVM, by py4j: the only package that knows Hudi's classes and how its releases differ (`_is_1_0`)."""

from compaction_operator.hudi.jvm.client import HudiClient

__all__ = ["HudiClient"]
