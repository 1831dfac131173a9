"""Hudi in a JVM, by py4j: the only package that knows Hudi's classes and how its releases differ (`release`)."""

from compaction_operator.hudi.jvm.client import HudiClient

__all__ = ["HudiClient"]
