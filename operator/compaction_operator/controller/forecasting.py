"""Forecaster: the child process in which compactions are forecast for policies, and the memory that it may have.

It is another process since the controller loads none of the libraries that read ORC files, and must not grow with the
delete events of a table.
"""

import asyncio
import logging
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion, ForecastRequest
from compaction_operator.image import reads_orc

log = logging.getLogger(__name__)

SECONDS = 60.0
"""For all questions of one process. The one that it was about then is not asked again for a while."""
ROOM = 160 << 20
"""Bytes that the process may use beside what it has after its start."""
NEEDED = ROOM + (140 << 20)
"""Bytes that the pod must have to spare: the process has so many after its start."""
CHILD = (sys.executable, "-m", "compaction_operator.driver.forecasts")
LINE = 1 << 20
"""Bytes of an answer at most; one has up to 20 partitions."""
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

    def __init__(self, config: OperatorConfig, *, cgroup: Path = CGROUP, seconds: float = SECONDS) -> None:
        self._config = config
        self._cgroup = cgroup
        self._seconds = seconds
        self._alone = asyncio.Lock()
        self._said_short = False

    async def ask(self, warehouse: str, questions: Sequence[ForecastQuestion]) -> list[ForecastAnswer]:
        """Return the answers to the first questions.

        If the process ends early, the last answer says why the question after the others has none.
        """
        known = self._config.warehouse(warehouse)
        if known is None or not self._has_room():
            return []
        root = self._config.volume_root(known)
        request = ForecastRequest(warehouse=known, root=root, memory=ROOM, questions=tuple(questions))
        async with self._alone:
            return await self._answers(request)

    def _has_room(self) -> bool:
        spare = spare_memory(self._cgroup)
        short = spare is not None and spare < NEEDED
        if short and not self._said_short:
            log.info("no forecasts for policies: the pod has less than %d MiB to spare", NEEDED >> 20)
        self._said_short = short
        return not short

    async def _answers(self, request: ForecastRequest) -> list[ForecastAnswer]:
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(*CHILD, stdin=pipe, stdout=pipe, stderr=pipe, limit=LINE)
        answers, failed = list[ForecastAnswer](), None
        try:
            async with asyncio.timeout(self._seconds):
                failed = await _talk(child, request, answers)
        except TimeoutError:
            failed = f"it takes longer than {self._seconds:g} seconds"
        finally:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        if failed and len(answers) < len(request.questions):
            answers.append(ForecastAnswer(problem=f"the forecast failed: {failed}"))
        return answers


async def _talk(child: Process, request: ForecastRequest, answers: list[ForecastAnswer]) -> str | None:
    """Ask a child, and add its answers. Return why it failed, None if it did not or no question is to blame."""
    if child.stdin is None or child.stdout is None or child.stderr is None:
        raise ValueError("the child has no pipes")
    said = asyncio.ensure_future(child.stderr.read())
    with suppress(ConnectionError):
        child.stdin.write(request.model_dump_json(by_alias=True).encode())
        child.stdin.close()
    async for line in child.stdout:
        answers.append(ForecastAnswer.model_validate_json(line))
    words, code = (await said).decode(errors="replace").splitlines()[-1:], await child.wait()
    if code == os.EX_TEMPFAIL:
        log.info("no forecasts for policies now: %s", "; ".join(words))
        return None
    return None if code == 0 else "; ".join((*words, f"exit code {code}"))


def spare_memory(cgroup: Path) -> int | None:
    """Return the bytes that the processes of a control group may still use, None if they have no limit.

    Cached files count as free. `cgroup` is version 1 or 2: see the kernel's cgroup-v2 and cgroup-v1/memory.
    """
    for limit, usage, statistics, cached in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
    ):
        if (cgroup / limit).exists():
            most = (cgroup / limit).read_text().strip()
            numbers = dict(line.split() for line in (cgroup / statistics).read_text().splitlines())
            used = int((cgroup / usage).read_text()) - int(numbers[cached])
            return None if most == "max" else int(most) - used
    return None


def forecasts_of(config: OperatorConfig) -> Forecasts:
    """Return what makes the forecasts of policies in this image."""
    return Forecaster(config) if reads_orc() else NoForecasts()
