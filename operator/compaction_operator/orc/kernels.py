"""The switch between the compiled kernels and their references in Python.

Each kernel (`operator/kernels/module.c` lists them) does what one function of this package does: the same result, and
the same error for a damaged stream. That function calls the kernel if `compiled` has it. Tests compare the two.
"""

import logging
import os
from importlib import import_module
from types import ModuleType


def _load() -> ModuleType | None:
    if os.environ.get("COMPACTION_KERNELS") == "off":
        return None
    try:
        return import_module("compaction_operator.orc._kernels")
    except ImportError as error:
        message = "the compiled kernels are missing: compaction takes several times the CPU time (%s)"
        logging.getLogger(__name__).warning(message, error)
        return None


compiled = _load()
"""The compiled kernels, or None: then the references do the work.

None if the environment has COMPACTION_KERNELS=off. Also None, with a warning in the log, if the kernels were not built.
"""
