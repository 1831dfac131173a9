"""Forecaster: the child process in which compactions are forecast for policies, and the memory that it may have.

It is another process since the controller loads none of the libraries that read ORC files, and must not grow with the
delete events of a table.
"""

import asyncio
import logging
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion, ForecastRequest
from compaction_operator.image import reads_orc

log = logging.getLogger(__name__)

SECONDS = 30.0
"""For one question: what takes longer has no forecast."""
LIFE = 120.0
"""Seconds for all questions of a process. The others are asked again."""
ROOM = 160 << 20
"""Bytes that the process may use beside what it has after its start: twice what 2,000,000 delete events take."""
NEEDED = ROOM + (170 << 20)
"""Bytes that the pod must have to spare: the process has so many after its start, or may touch them."""
CHILD = (sys.executable, "-m", "compaction_operator.driver.forecasts")
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Less memory that is reserved and never used, as the limit counts it."""
LAST_WORDS = 2_000
"""Bytes of what a process said last. The last line of them is quoted."""
GRACE = 5.0
"""Seconds in which a killed process must end. One whose storage hangs does not."""
CGROUP = Path("/sys/fs/cgroup")


class Forecasts(Protocol):
    """What makes forecasts."""

    async def ask(self, warehouse: str, questions: Sequence[ForecastQuestion]) -> list[ForecastAnswer]:
        """Return the answers to the first questions, none if none can be answered now."""
        ...


class NoForecasts:
    """What makes none: the controller's small image reads no ORC files."""

    async def ask(self, warehouse: str, questions: Sequence[ForecastQuestion]) -> list[ForecastAnswer]:  # noqa: ARG002
        """Return nothing."""
        return []


class Forecaster:
    """Forecasts by a child process, one at a time: all share the pod's memory."""

    def __init__(
        self, config: OperatorConfig, *, cgroup: Path = CGROUP, seconds: float = SECONDS, life: float = LIFE
    ) -> None:
        self._config = config
        self._cgroup = cgroup
        self._seconds = seconds
        self._life = life
        self._alone = asyncio.Lock()
        self._child: Process | None = None
        self._said = ""

    async def ask(self, warehouse: str, questions: Sequence[ForecastQuestion]) -> list[ForecastAnswer]:
        """Return the answers to the first questions.

        If the process fails, the last answer says why the question after the others has none.
        """
        known = self._config.warehouse(warehouse)
        if known is None:
            return []
        root, seconds = self._config.volume_root(known), round(self._life + GRACE)
        request = ForecastRequest(warehouse=known, root=root, memory=ROOM, seconds=seconds, questions=tuple(questions))
        async with self._alone:
            if obstacle := self._obstacle():
                self._say(obstacle)
                return []
            answers = await self._answers(request)
            self._said = "" if answers else self._said
            return answers

    def _obstacle(self) -> str:
        if self._child is not None and self._child.returncode is None:
            return "the process of the last ones does not end: its storage may hang"
        spare = spare_memory(self._cgroup)
        if spare is not None and spare < NEEDED:
            return f"the pod has less than {NEEDED >> 20} MiB to spare (resources.limits.memory)"
        return ""

    def _say(self, obstacle: str) -> None:
        """Log why there are no forecasts, once until there are some."""
        if obstacle != self._said:
            log.info("no forecasts for policies: %s", obstacle)
        self._said = obstacle

    async def _answers(self, request: ForecastRequest) -> list[ForecastAnswer]:
        answers = list[ForecastAnswer]()
        with tempfile.TemporaryFile() as words:
            child = self._child = await asyncio.create_subprocess_exec(
                *CHILD, stdin=PIPE, stdout=PIPE, stderr=words, env={**os.environ, **ENVIRONMENT}
            )
            try:
                failed = await self._talk(child, request, answers)
                if failed is None:
                    failed = await self._ending(child, words)
            finally:
                await _kill(child)
        if failed and len(answers) < len(request.questions):
            answers.append(ForecastAnswer(problem=f"the forecast failed: {failed}"))
        return answers

    async def _talk(self, child: Process, request: ForecastRequest, answers: list[ForecastAnswer]) -> str | None:
        """Ask a child and add its answers. Return why it has to be killed, '' if its time is over, None at its end."""
        if child.stdin is None or child.stdout is None:
            raise ValueError("the child has no pipes")
        child.stdin.write(request.model_dump_json(by_alias=True).encode())
        child.stdin.close()
        clock, patience = asyncio.get_running_loop().time, self._life  # its start is no fault of the first question
        end = clock() + self._life
        try:
            while line := await asyncio.wait_for(child.stdout.readline(), min(patience, end - clock())):
                if line.strip():
                    answers.append(ForecastAnswer.model_validate_json(line))
                patience = self._seconds
        except TimeoutError:
            return "" if clock() >= end else f"it takes longer than {self._seconds:g} seconds"
        except ValueError as error:
            return f"its answer cannot be read: {str(error).splitlines()[0]}"
        return None

    async def _ending(self, child: Process, words: IO[bytes]) -> str | None:
        """Return why a child ended that said no more, None if no question is to blame."""
        await asyncio.wait_for(child.wait(), GRACE)
        words.seek(max(0, words.seek(0, os.SEEK_END) - LAST_WORDS))
        last = words.read().decode(errors="replace").splitlines()[-1:]
        code = child.returncode
        if code == os.EX_TEMPFAIL:
            self._say("; ".join(last))
            return None
        return None if code == 0 else "; ".join((*last, f"exit code {code}"))


async def _kill(child: Process) -> None:
    with suppress(ProcessLookupError):
        child.kill()
    with suppress(TimeoutError):
        await asyncio.wait_for(child.wait(), GRACE)


def spare_memory(cgroup: Path) -> int | None:
    """Return the bytes that the processes of a control group may still use, None if they have no limit.

    Cached files count as free. `cgroup` is version 1 or 2: see the kernel's cgroup-v2 and cgroup-v1/memory.
    """
    for folder, limit, usage, prefix in (
        (cgroup, "memory.max", "memory.current", ""),
        (cgroup / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        if (folder / limit).exists():
            most = (folder / limit).read_text().strip()
            numbers = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            cached = sum(int(numbers.get(f"{prefix}{name}", 0)) for name in ("active_file", "inactive_file"))
            return None if most == "max" else int(most) - int((folder / usage).read_text()) + cached
    return None


def forecasts_of(config: OperatorConfig) -> Forecasts:
    """Return what makes the forecasts of policies in this image."""
    return Forecaster(config) if reads_orc() else NoForecasts()
