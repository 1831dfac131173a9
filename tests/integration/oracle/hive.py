"""Real Hive as an oracle: a long-lived JVM of one release's own reader, writer and compactor, no services."""

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from sandbox.harness.places import Place
from sandbox.metastore.server import Hive

HERE = Path(__file__).parent
OPENED_PACKAGES = ("java.lang", "java.net", "java.nio", "java.time", "java.util")
LAUNCHER = ("setpriv", "--pdeathsig", "KILL")
"""With pdeathsig a JVM does not outlive a test run that was killed."""
OPTIONS = (
    *("-Xss4m", "-XX:+UseSerialGC", "-Duser.timezone=UTC"),
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
SHORT_LIVED = ("-Xmx1g", "-XX:TieredStopAtLevel=1")
"""Java's options for small questions: what would be compiled with care for them is never repaid."""

RELEASES: Mapping[Hive, tuple[str, str, str]] = {
    "3.1.3": ("java", "classes3", "hive3"),
    "4.0.1": ("java", "classes4", "hive4"),
    "4.1.0": ("java", "classes4.1", "hive4.1"),
    "4.2.0": ("{folder}/java21/bin/java", "classes4.1", "hive4.2"),
}
"""Each release's Java, and its folders of the program and of jars, within that of `fetch`."""

RowId = tuple[int, int, int]
"""A ROW__ID: write id, bucket property, row id."""


class Row(NamedTuple):
    """One visible row: its ROW__ID and its values in the JSON form that the README describes."""

    write_id: int
    bucket: int
    row_id: int
    values: list[Any]


class State(NamedTuple):
    """What AcidUtils.getAcidState answered, as names."""

    base: str | None
    current: list[str]
    obsolete: list[str]
    originals: list[str]
    aborted: list[str]


class OracleError(Exception):
    """Hive refused or failed; the message is its own, the trace the Java stack."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self.trace = trace


@cache
def fetch() -> Path:
    """Return the folder of Hive's jars and the compiled program, in the user's cache; makes it when it is not there."""
    done = subprocess.run([HERE / "fetch.sh"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip().splitlines()[-1])


class HiveOracle:
    """A JVM of Hive 3 or 4, started at the first question: `with HiveOracle(3) as hive: hive.read(folder)`.

    Several threads may ask; it answers one after the other. `tuning` is more options of Java's. `release` is another
    than 3.1.3 or 4.0.1.
    """

    def __init__(self, version: int, *, release: Hive | None = None, tuning: Sequence[str] = SHORT_LIVED) -> None:
        self.version = version
        self.release: Hive = release or ("3.1.3" if version == 3 else "4.0.1")
        self._tuning = tuning
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    @property
    def pid(self) -> int:
        """The JVM's process; starts it if it does not run."""
        return (self._process or self._start()).pid

    def configure(self, properties: Mapping[str, str]) -> None:
        """Set Hadoop's properties by which it reaches a store."""
        self._ask("configure", settings=properties)

    def read(
        self,
        directory: Place | str,
        *,
        write_ids: str | None = None,
        txns: str | None = None,
        row_type: str | None = None,
        vectorized: bool = False,
    ) -> list[Row]:
        """Return the rows that a query sees in a table's or partition's directory, in the order it reads them.

        Without `write_ids` (a ValidWriteIdList as text) all are valid; without `row_type` (struct<...>) the widest of
        the files' is taken. Raises OracleError.
        """
        answer = self._ask(
            "read", dir=directory, write_ids=write_ids, txns=txns, row_type=row_type, vectorized=vectorized
        )
        return [Row(*row) for row in answer["rows"]]

    def plan(
        self,
        directory: Place | str,
        *,
        write_ids: str,
        txns: str,
        row_type: str,
        vectorized: bool = False,
    ) -> int:
        """Choose the files of a `read`, as when a query starts; return the plan's number. Raises OracleError."""
        answer = self._ask(
            "plan", dir=directory, write_ids=write_ids, txns=txns, row_type=row_type, vectorized=vectorized
        )
        number: int = answer["plan"]
        return number

    def read_plan(self, plan: int) -> list[Row]:
        """Open the files of a plan and return their rows, as when a query's tasks run; once. Raises OracleError."""
        return [Row(*row) for row in self._ask("read_plan", plan=plan)["rows"]]

    def state(self, directory: Place | str, *, write_ids: str | None = None, txns: str | None = None) -> State:
        """Return which directories and files a reader of the snapshot uses; raises OracleError."""
        return State(**self._ask("state", dir=directory, write_ids=write_ids, txns=txns))

    def write(
        self,
        directory: Place | str,
        events: Sequence[Sequence[Any]],
        *,
        row_type: str,
        write_id: int,
        max_write_id: int | None = None,
        statement: int = 0,
        bucket: int = 0,
        attempt: int | None = None,
        base: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Write what one task of a statement does: its bucket of a delta and delete delta, or of a base.

        Events: ("insert", write id, values), ("update", write id, ROW__ID, values), ("delete", write id, ROW__ID) and
        ("flush",), which ends a stripe. The caller sorts deletes and updates by ROW__ID, as a query does.
        `settings` are table properties (orc.compress). With `max_write_id` the delta is a streaming writer's.
        """
        self._ask(
            "write",
            dir=directory,
            events=events,
            row_type=row_type,
            write_id=write_id,
            max_write_id=max_write_id or write_id,
            statement=statement,
            bucket=bucket,
            attempt=attempt,
            base=base,
            settings=settings or {},
        )

    def fill(
        self,
        directory: Place | str,
        *,
        row_type: str,
        write_id: int,
        rows: int,
        first_id: int,
        vocabularies: Mapping[str, int],
        base: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Write so many random rows into bucket 0 of a delta or base: the same rows for the same arguments.

        A column `id` counts from `first_id`. `vocabularies` says from how many words the strings of a column come.
        """
        self._ask(
            "fill",
            dir=directory,
            row_type=row_type,
            write_id=write_id,
            rows=rows,
            first_id=first_id,
            seed=write_id,
            vocabularies=vocabularies,
            base=base,
            bucket=0,
            statement=0,
            settings=settings or {},
        )

    def delete_rows(
        self,
        directory: Place | str,
        ranges: Sequence[tuple[int, int, int]],
        *,
        row_type: str,
        write_id: int,
        drawn: tuple[float, float] = (0.0, 1.0),
        settings: Mapping[str, str] | None = None,
    ) -> int:
        """Write a delete delta of rows of bucket 0, and return their number.

        The ranges (write id, first row id, end) are in the order of ROW__IDs. Each of their rows draws a number from 0
        to 1, the same in each call for the same ranges; those whose number lies within `drawn` are deleted.
        """
        answer = self._ask(
            "delete_rows",
            dir=directory,
            ranges=ranges,
            row_type=row_type,
            write_id=write_id,
            drawn=drawn,
            base=False,
            bucket=0,
            statement=0,
            settings=settings or {},
        )
        number: int = answer["deleted"]
        return number

    def write_file(
        self,
        path: Place | str,
        rows: Sequence[Sequence[Any]],
        *,
        row_type: str,
        settings: Mapping[str, str] | None = None,
        time_zone: str | None = None,
    ) -> None:
        """Write a plain ORC file, as originals and LOAD DATA have; `time_zone` is the writer's, UTC when not given."""
        self._ask("write_file", path=path, rows=rows, row_type=row_type, settings=settings or {}, time_zone=time_zone)

    def truncate(self, directory: Place | str, *, write_id: int, data_format: str = "truncated") -> None:
        """Write the empty base of Hive 4's TRUNCATE, or ("dropped") of its DROP PARTITION; Hive 3 has none.

        Raises OracleError.
        """
        self._ask("truncate", dir=directory, write_id=write_id, format=data_format)

    def compact(
        self,
        deltas: Sequence[Place | str],
        output: Place | str,
        *,
        major: bool,
        bucket: int,
        row_type: str,
        min_write_id: int,
        max_write_id: int,
        base: Place | str | None = None,
        write_ids: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Merge one bucket of the directories as Hive's compactor does, into a base or delta pair within `output`."""
        self._ask(
            "compact",
            deltas=[str(delta) for delta in deltas],
            output=output,
            major=major,
            bucket=bucket,
            row_type=row_type,
            min_write_id=min_write_id,
            max_write_id=max_write_id,
            base=base,
            write_ids=write_ids,
            settings=settings or {},
        )

    def checksum(
        self, deltas: Sequence[Place | str], *, major: bool, row_type: str, base: Place | str | None = None
    ) -> tuple[int, str]:
        """Return the number of rows of bucket 0, and a checksum of them and their ROW__IDs in their order.

        With `major` these are the rows that a query sees, otherwise all events, of inserts and of deletes.
        """
        directories = [str(delta) for delta in deltas]
        answer = self._ask("checksum", deltas=directories, base=base, major=major, row_type=row_type, bucket=0)
        return answer["rows"], answer["checksum"]

    def search(self, file: Place | str, predicate: Mapping[str, Any] | None = None) -> list[tuple[int, list[Any]]]:
        """Return number and values of the rows of one ORC file that its reader does not skip under the predicate.

        A predicate is {"and": [...]}, {"or": [...]}, {"not": ...} or a leaf {"test", "column", "kind", "values"}; the
        README lists tests and kinds. For a file of events, columns are those of the row.
        """
        return [(number, values) for number, values in self._ask("search", file=file, predicate=predicate)["rows"]]

    def _ask(self, operation: str, **request: Any) -> dict[str, Any]:
        given = {name: value for name, value in request.items() if value is not None}
        with self._lock:
            process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"op": operation, **given}, default=str) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line:
            raise OracleError(f"Hive {self.release}'s JVM ended with code {process.wait()}", "")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise OracleError(answer["error"], answer["trace"])
        return answer

    def _start(self) -> subprocess.Popen[str]:
        folder = fetch()
        java, program, jars = RELEASES[self.release]
        class_path = ":".join(str(folder / part) for part in (program, f"{jars}/*", "common/*"))
        self._process = subprocess.Popen(
            [
                *LAUNCHER,
                java.format(folder=folder),
                *OPTIONS,
                *self._tuning,
                "-cp",
                class_path,
                "dev.compaction.oracle.Server",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self._process
