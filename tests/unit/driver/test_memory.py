"""The allocator of a process that merges."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import importlib, resource, sys, threading
importlib.import_module(sys.argv[1])
import numpy, pyarrow

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def merge():
    numpy.ones(1 << 21)
    before = faults()
    for _ in range(10):
        numpy.ones(1 << 21)
    print(faults() - before, pyarrow.default_memory_pool().backend_name)

thread = threading.Thread(target=merge)
thread.start()
thread.join()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
@pytest.mark.parametrize("module", ["compaction_operator.driver.main", "compaction_operator.driver.offline"])
def test_that_a_task_allocates_what_it_freed_before(module: str) -> None:
    """Ten arrays of 16 MB one after another would otherwise have 4096 new pages each."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, module], check=True, capture_output=True, text=True)
    faults, pool = run.stdout.split()
    assert int(faults) < 4096
    assert pool == "system"
