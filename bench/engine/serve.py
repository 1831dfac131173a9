"""A child process that answers requests, one JSON object a line, and what it says about its own use of the machine.

NB: imports nothing heavy, so that a child's memory is that of what it measures.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Answer = dict[str, Any]


def serve(handle: Callable[[Answer], Answer]) -> None:
    """Answer the requests on standard input until it ends; what is printed meanwhile goes to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        answers.write(json.dumps(handle(json.loads(line))) + "\n")
        answers.flush()


@contextmanager
def measured() -> Iterator[Answer]:
    """Yield what will hold `cpu_s` and `wall_s` of the block, and `peak_rss_mb` of this process so far."""
    figures: Answer = {}
    began, cpu = time.perf_counter(), own_cpu()
    yield figures
    wall = time.perf_counter() - began
    figures |= {"cpu_s": own_cpu() - cpu, "wall_s": wall, "peak_rss_mb": peak_rss_mb("self")}


def own_cpu() -> float:
    """Return the CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_rss_mb(process: int | str) -> float:
    """Return the most memory that a process ever had resident, in MB.

    NB: `getrusage` of a child counts what its parent had when it forked, too.
    """
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1000 * 1.024
