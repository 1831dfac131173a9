"""The live writer, with its own process and Spark: `python -m tests.soak.hudi_storm.writer FOLDER VERSION SEED`.

It upserts and deletes all the time, and reads each table back against its model, with Spark and without a JVM. Only
this writer changes rows, so each read must be exactly what was committed so far, whatever compactions do. FOLDER has
`options.json` (Hudi's options by table). It writes until there is `FOLDER/calm`, waits for `FOLDER/over`, reads
all once more and ends. `FOLDER/writer.json` has its figures; after an error that too, and the exit code is 1.
"""

import json
import logging
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from sandbox.harness.wait import wait_until
from sandbox.hudi.session import HudiSession

from tests.soak.hudi_storm.model import Model, Write
from tests.soak.hudi_storm.table import StormTable

log = logging.getLogger("writer")

TRIES = 40
"""How often one write is tried. Locks and conflicts pass, and what a dead driver left is put in order by the next one,
once its lease has ended; a write that never succeeds is what must not be."""
BETWEEN_TRIES = 2.0
BETWEEN_WRITES = 1.5
REST_SECONDS = 10.0
"""After each read. NB: with 1.0.2 a log compaction is planned when no write is pending, so such a time has to come."""
READ_EVERY = 3
OVER_SECONDS = 1800.0
OPTIONS, FIGURES, CALM, OVER = "options.json", "writer.json", "calm", "over"


Target = tuple[StormTable, Model]


class WriterError(AssertionError):
    """A write that failed for good, or a read that was not what was committed."""


class Writer:
    """Writes to all tables, one commit at a time."""

    def __init__(self, folder: Path, spark: Any, rng: Random, targets: Sequence[Target]) -> None:
        self.tally: Counter[str] = Counter()
        self._folder = folder
        self._spark = spark
        self._rng = rng
        self._targets = targets
        self._pause = threading.Event()

    def run(self) -> None:
        """Write until it is calm, then read everything once more when all is over."""
        for table, model in self._targets:
            self._write(table, model)
            self.tell()
        while not (self._folder / CALM).exists():
            table, model = self._rng.choice(self._targets)
            self._write(table, model)
            due = self.tally["writes"] % READ_EVERY == 0
            if due:
                self._read(table, model)
            self.tell()
            self._pause.wait(REST_SECONDS if due else self._rng.uniform(0, BETWEEN_WRITES))
        wait_until((self._folder / OVER).exists, timeout=OVER_SECONDS, what="the last compactions to end")
        for table, model in self._targets:
            self._read(table, model)

    def _write(self, table: StormTable, model: Model) -> None:
        write = model.next_write(self._rng)
        errors: list[str] = []
        while not self._try(table, write, errors):
            if len(errors) == TRIES:
                raise WriterError(f"{table.name}: write {model.writes} failed {TRIES} times: {'; '.join(errors)}")
            self._pause.wait(self._rng.uniform(0, BETWEEN_TRIES))
        self.tally["came back"] += sum(row.id in model.gone for row in write.upserts)
        model.apply(write)
        self.tally["writes"] += 1
        changed = f"{len(write.upserts)} upserts, {len(write.deletes)} deletes"
        log.info("%s: write %d: %s", table.name, model.writes, changed)

    def _try(self, table: StormTable, write: Write, errors: list[str]) -> bool:
        """NB: trying again what may have been committed changes nothing: the same rows with the same times."""
        try:
            table.write(self._spark, write)
        except (Py4JJavaError, PySparkException) as error:
            errors.append(cause_of(error))
            self.tally["tried again"] += 1
            log.info("%s: tried again: %s", table.name, errors[-1])
            return False
        return True

    def _read(self, table: StormTable, model: Model) -> None:
        found = {"Spark": table.spark_rows(self._spark)}
        if table.is_seen_without_a_jvm():
            found["the native reader"] = table.native_rows()
        for reader, rows in found.items():
            if problems := model.differences(rows):
                raise WriterError(f"{table.name} after write {model.writes}, by {reader}: {', '.join(problems[:5])}")
            self.tally[f"reads by {reader}"] += 1

    def tell(self, *, error: str = "", ended: bool = False) -> None:
        """Leave the figures so far for the process that started this one."""
        aside = self._folder / f"{FIGURES}.new"
        aside.write_text(json.dumps({**self.tally, "error": error, "ended": ended}))
        aside.rename(self._folder / FIGURES)


def cause_of(error: Exception) -> str:
    """Return the innermost exception of a Java stack trace, in one line."""
    lines = [line.removeprefix("Caused by: ") for line in str(error).splitlines() if "Exception" in line]
    return (lines or [str(error)])[-1].strip()[:300]


def targets_of(folder: Path) -> list[Target]:
    """Return the tables of `options.json`, and what they hold: nothing yet."""
    options: dict[str, dict[str, str]] = json.loads((folder / OPTIONS).read_text())
    targets = []
    for location, own in options.items():
        table = StormTable(Path(location), own)
        targets.append((table, Model(table.kind.mode)))
    return targets


def main(folder: Path, version: str, seed: str) -> int:
    """Write until told otherwise; return 1 after an error."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    targets = targets_of(folder)
    with HudiSession(version, cores=1) as session:
        writer = Writer(folder, session.spark, Random(f"{seed}/writer"), targets)
        try:
            writer.run()
        except Exception as error:
            log.exception("the writer has failed")
            writer.tell(error=f"{type(error).__name__}: {error}")
            return 1
        writer.tell(ended=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
