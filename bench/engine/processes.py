"""Child processes that measure or are measured, and what the kernel says of them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from bench.engine.serve import Answer

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that all threads of a process have used, in the kernel's ticks of usually 10 ms."""
    # The name of the program may hold spaces; the fields behind it are numbers.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Child:
    """A module of this package in a process of its own that answers requests (`serve`); ends with this process."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input ends it

    def ask(self, **request: Any) -> Answer:
        """Return the answer to a request; raises RuntimeError if the child fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request, default=str) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._module} ended with code {self._process.wait()}")
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self._module}: {answer['error']}")
        return answer
