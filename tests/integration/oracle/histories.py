"""Random histories of one directory: Hive's writer does what queries, streams, LOAD DATA and aborts leave behind."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from compaction_operator.acid.names import METADATA_ACID, METADATA_ACID_CONTENT, parse_directory
from tests.integration.oracle.hive import HiveOracle, Row, State
from tests.integration.oracle.laws import NO_END, View
from tests.integration.oracle.row_types import ColumnType, random_type, widened

AFTER_ORIGINALS = 10_000_000
"""The write ids of a table that was not always ACID begin above."""

CODECS = ("ZLIB", "SNAPPY", "LZ4", "NONE")


@dataclass
class WriteIds:
    """The write ids that were given out, and what became of them."""

    last: int
    open: set[int]
    aborted: set[int]

    def text(self) -> str:
        """Return the list of a reader that starts now."""
        return write_ids_text(self.last, self.open, self.aborted)


def write_ids_text(last: int, open_: set[int], aborted: set[int]) -> str:
    """Return the snapshot in which nothing above `last` was given out."""
    still = sorted(number for number in open_ if number <= last)
    gone = sorted(number for number in aborted if number <= last)
    return f"oracle.t:{last}:{min(still, default=NO_END)}:{_join(still)}:{_join(gone)}"


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


class RandomTable:
    """One table or partition directory, and the random steps that Hive takes in it."""

    def __init__(self, hive: HiveOracle, directory: Path, rng: Random) -> None:
        self.hive = hive
        self.directory = directory
        self.steps: list[str] = []
        """The steps so far, to explain why a law is broken."""
        self._rng = rng
        # Few columns of some thousand rows for row groups and stripes, many columns of few rows for everything else.
        self._bulky = rng.random() < 0.1
        self._columns = [random_type(rng) for _ in range(rng.randint(1, 2 if self._bulky else 5))]
        self._buckets = rng.choice([1, 1, 2, 4])
        self._settings = self._random_settings()
        self.ids = WriteIds(0, set(), set())
        self._first = 0
        self._txn = 1000
        self._aborted_txns: set[int] = set()
        if rng.random() < 0.2:
            self._write_originals()

    @property
    def row_type(self) -> str:
        """The table's columns as they are now."""
        return self._struct(self._columns)

    @property
    def current(self) -> View:
        """The snapshot of a reader that starts now."""
        return View(self.ids.text(), self._txns(NO_END))

    def next_txn(self) -> int:
        """Return the transaction of a compaction."""
        self._txn += 1
        return self._txn

    def _txns(self, last: int) -> str:
        return f"{last}:{NO_END}::{_join(sorted(self._aborted_txns))}"

    def older(self, *, txn: int) -> list[View]:
        """Return snapshots that readers may still hold: from before each write id; to some, some were open then.

        The compaction's transaction `txn` is open to all of them.
        """
        txns = self._txns(txn - 1)
        views = [View(self.ids.text(), txns)]
        marks = range(max(self._first, self.ids.last - 8), self.ids.last)
        for last in marks[-2:] if self._bulky else marks:
            views.append(View(write_ids_text(last, self.ids.open, self.ids.aborted), txns))
        for last in self._rng.sample(marks, min(2, len(marks))):
            once_open = {number for number in range(self._first + 1, last + 1) if self._rng.random() < 0.3}
            then = write_ids_text(last, self.ids.open | once_open, self.ids.aborted - once_open)
            views.append(View(then, txns))
        return views

    def step(self) -> None:
        """Do one random thing, but begin with rows."""
        if not self.steps:
            self.steps.append("insert (1)")
            self._insert()
            return
        steps: dict[Callable[[], None], int] = {
            self._insert: 6,
            self._change: 8,
            self._merge: 2,
            self._delete_all: 1,
            self._abort: 3,
            self._leave_open: 1,
            self.settle: 2,
            self._stream: 2,
            self._overwrite: 1,
            self._truncate: 1,
            self._load_data: 1,
            self._write_nothing: 1,
            self._elsewhere: 2,
            self._alter: 1,
            self._hive_compacts: 2,
        }
        step = self._rng.choices(list(steps), weights=list(steps.values()))[0]
        self.steps.append(f"{step.__name__.strip('_')} ({self.ids.last + 1})")
        step()

    def _random_settings(self) -> dict[str, str]:
        rng = self._rng
        codecs = (*CODECS, "ZSTD") if self.hive.version == 4 else CODECS
        settings = {"orc.compress": rng.choice(codecs), "orc.row.index.stride": rng.choice(["1000", "10000"])}
        if rng.random() < 0.3:
            settings |= {"orc.stripe.size": "2000", "orc.rows.between.memory.checks": "1"}
        if rng.random() < 0.2:
            settings["orc.compress.size"] = rng.choice(["1024", "4096", "32768"])
        if rng.random() < 0.2:
            settings["orc.dictionary.key.threshold"] = rng.choice(["0", "1"])
        if rng.random() < 0.2:
            settings["orc.bloom.filter.columns"] = ",".join(f"c{i}" for i in range(len(self._columns)))
        return settings

    def _struct(self, columns: Sequence[ColumnType]) -> str:
        return "struct<" + ",".join(f"c{i}:{column.name}" for i, column in enumerate(columns)) + ">"

    def _rows(self, count: int | None = None) -> list[list[Any]]:
        rng = self._rng
        number = count if count is not None else rng.choice([1, 2, 5, 12, 30])
        if self._bulky and count is None:
            number *= 100
        # Runs and few distinct values as well as random ones, so that every encoding is met.
        pools = [[column.value(rng) for _ in range(rng.choice([1, 3, number]))] for column in self._columns]
        return [[rng.choice(pool) for pool in pools] for _ in range(number)]

    def _new_id(self) -> int:
        self.ids.last += 1
        return self.ids.last

    def _some_buckets(self) -> list[int]:
        return sorted(self._rng.sample(range(self._buckets), self._rng.randint(1, self._buckets)))

    def _write(self, events: Sequence[Sequence[Any]], write_id: int, *, bucket: int, **options: Any) -> None:
        # NB: Hive 4's row reader loses deletes when statements of one write id come from different attempts of tasks.
        attempt = (write_id + bucket) % 3 // 2 if self.hive.version == 4 else None
        self.hive.write(
            self.directory,
            events,
            row_type=self.row_type,
            write_id=write_id,
            bucket=bucket,
            attempt=attempt,
            settings=self._settings,
            **options,
        )

    def _insert_into(self, write_id: int, *, statement: int, **options: Any) -> None:
        for bucket in self._some_buckets():
            events: list[tuple[Any, ...]] = [("insert", write_id, row) for row in self._rows()]
            if self._rng.random() < 0.15:
                events.insert(self._rng.randrange(len(events)), ("flush",))
            self._write(events, write_id, bucket=bucket, statement=statement, **options)

    def _insert(self) -> None:
        """INSERT, or a multi-insert of several statements."""
        write_id = self._new_id()
        for statement in range(self._rng.choice([1, 1, 1, 2, 3])):
            self._insert_into(write_id, statement=statement)

    def _visible(self) -> list[Row]:
        return self.hive.read(
            self.directory,
            write_ids=self.ids.text(),
            txns=self.current.txns,
            row_type=self.row_type,
            vectorized=True,
        )

    def _change_rows(self, write_id: int, rows: Sequence[Row], *, statement: int, updates: float) -> None:
        """Delete or (with a probability of `updates`) update the rows, each in its bucket, in the order of ROW__IDs."""
        by_bucket: dict[int, list[tuple[Any, ...]]] = {}
        new = self._rows(len(rows))
        for row, values in zip(sorted(rows, key=lambda row: row[:3]), new, strict=True):
            bucket = row.bucket >> 16 & 0xFFF
            change: tuple[Any, ...] = ("delete", write_id, row[:3])
            if self._rng.random() < updates:
                change = ("update", write_id, row[:3], values)
            by_bucket.setdefault(bucket, []).append(change)
        for bucket, events in by_bucket.items():
            self._write(events, write_id, bucket=bucket, statement=statement)

    def _change(self) -> None:
        """UPDATE or DELETE of some rows."""
        visible = self._visible()
        if visible:
            rows = self._rng.sample(visible, max(1, int(len(visible) * self._rng.choice([0.01, 0.2, 0.7]))))
            self._change_rows(self._new_id(), rows, statement=0, updates=self._rng.choice([0.0, 1.0]))

    def _merge(self) -> None:
        """MERGE: a statement each for deletes, updates and inserts, in one write id."""
        visible, write_id = self._visible(), self._new_id()
        self._rng.shuffle(visible)
        third = len(visible) // 3
        self._change_rows(write_id, visible[:third], statement=0, updates=0.0)
        self._change_rows(write_id, visible[third : 2 * third], statement=1, updates=1.0)
        self._insert_into(write_id, statement=2)

    def _delete_all(self) -> None:
        self._change_rows(self._new_id(), self._visible(), statement=0, updates=0.0)

    def _abort(self) -> None:
        """A write that fails leaves its directories."""
        before = self.ids.last
        self._rng.choice([self._insert, self._change, self._merge])()
        self.ids.aborted |= set(range(before + 1, self.ids.last + 1))

    def _leave_open(self) -> None:
        """A write that goes on while everything else happens."""
        self._rng.choice([self._insert, self._elsewhere])()
        self.ids.aborted.discard(self.ids.last)
        self.ids.open.add(self.ids.last)

    def settle(self) -> None:
        """Each open write commits or aborts."""
        for write_id in sorted(self.ids.open):
            if self._rng.random() < 0.3:
                self.ids.aborted.add(write_id)
        self.ids.open.clear()

    def _stream(self) -> None:
        """A batch of a streaming writer: one delta of several write ids. Each of them may fail."""
        first = self._new_id()
        ids = [first] + [self._new_id() for _ in range(self._rng.randint(1, 3))]
        for bucket in self._some_buckets():
            events: list[tuple[Any, ...]] = []
            for write_id in ids:
                events += [("insert", write_id, row) for row in self._rows(self._rng.randint(0, 4))] + [("flush",)]
            self._write(events, first, bucket=bucket, max_write_id=ids[-1], statement=-1)
        self.ids.aborted |= {write_id for write_id in ids if self._rng.random() < 0.3}

    def _overwrite(self) -> None:
        """INSERT OVERWRITE, by a query or by LOAD DATA: its lock waits for all other writers."""
        self.settle()
        write_id = self._new_id()
        if self._rng.random() < 0.3:
            self._raw_files(self.directory / f"base_{write_id:07}")
        else:
            self._insert_into(write_id, statement=0, base=True)

    def _truncate(self) -> None:
        """TRUNCATE or DROP PARTITION. Hive 3 deletes all there is and is then given new rows; Hive 4 writes a base.

        There an INSERT may still be open below it.
        """
        if self.hive.version == 3 or self._rng.random() < 0.5:
            self.settle()
        if self.hive.version == 3:
            for path in self.directory.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            self._insert()
            return
        write_id = self._new_id()
        self.hive.truncate(self.directory, write_id=write_id, data_format=self._rng.choice(["truncated", "dropped"]))
        end = self._rng.random()
        if end < 0.4:
            (self.ids.aborted if end < 0.2 else self.ids.open).add(write_id)

    def _load_data(self) -> None:
        write_id = self._new_id()
        self._raw_files(self.directory / f"delta_{write_id:07}_{write_id:07}_0000")

    def _raw_files(self, directory: Path) -> None:
        for bucket in self._some_buckets():
            for copy in range(self._rng.choice([1, 1, 2])):
                name = f"{bucket:06}_0" + (f"_copy_{copy}" if copy else "")
                zone = self._rng.choice([None, None, "America/Los_Angeles", "Asia/Kolkata"])
                self.hive.write_file(
                    directory / name, self._rows(), row_type=self.row_type, settings=self._settings, time_zone=zone
                )

    def _write_originals(self) -> None:
        """The table was not always ACID; a UNION ALL left sub-directories."""
        self.steps.append("originals")
        self.ids.last = self._first = AFTER_ORIGINALS
        self._raw_files(self.directory)
        if self._rng.random() < 0.2:
            self._raw_files(self.directory / "HIVE_UNION_SUBDIR_1")

    def _write_nothing(self) -> None:
        """A statement that found no rows: a directory without files, or on Hive 4 a file without rows."""
        write_id = self._new_id()
        if self.hive.version == 3 or self._rng.random() < 0.5:
            self._write([("flush",)], write_id, bucket=0)
            return
        self._write([], write_id, bucket=0, base=True)
        base = self.directory / f"base_{write_id:07}"
        base.rename(self.directory / f"delta_{write_id:07}_{write_id:07}_0000")

    def _elsewhere(self) -> None:
        """A write into another partition. This partition gets only its write id."""
        self._new_id()
        if self._rng.random() < 0.2:
            self.ids.aborted.add(self.ids.last)

    def _alter(self) -> None:
        """ALTER TABLE: a new column, or a wider type for one."""
        index = self._rng.randrange(len(self._columns))
        wider = widened(self._columns[index], self._rng)
        if wider is not None and self._rng.random() < 0.5:
            self._columns[index] = wider
        else:
            self._columns.append(random_type(self._rng))

    def _hive_compacts(self) -> None:
        """Hive's own compaction of what is settled, without a clean-up. On Hive 4 it may fail at the end."""
        watermark = min(self.ids.open, default=self.ids.last + 1) - 1
        write_ids = write_ids_text(watermark, set(), self.ids.aborted)
        state = self.hive.state(self.directory, write_ids=write_ids, txns=self.current.txns)
        inputs = [self.directory / name for name in ([state.base] if state.base else []) + state.current]
        if not state.current or not all(_holds_events(path) for path in inputs):
            return
        # NB: Hive 3's minor copies each delete event into every bucket, and then cannot read it.
        minor = self._rng.random() < 0.5 and (self.hive.version == 4 or self._buckets == 1)
        ranges = {name.removeprefix("delete_") for name in state.current}
        if len(ranges) > 1 if minor else not state.originals:
            self._hive_merges(state, write_ids, major=not minor)

    def _hive_merges(self, state: State, write_ids: str, *, major: bool) -> None:
        seen = self._seen()
        parsed = [found for name in state.current if (found := parse_directory(name))]
        low = min(delta.min_write_id for delta in parsed)
        high = max(delta.max_write_id for delta in parsed)
        with tempfile.TemporaryDirectory(dir=self.directory.parent) as output:
            for bucket in range(self._buckets):
                self.hive.compact(
                    [self.directory / name for name in state.current],
                    output,
                    major=major,
                    bucket=bucket,
                    row_type=self.row_type,
                    min_write_id=low,
                    max_write_id=high,
                    base=self.directory / state.base if major and state.base else None,
                    write_ids=write_ids,
                    settings=self._settings,
                )
            self._publish(sorted(Path(output).iterdir()))
        if self._seen() != seen:
            raise AssertionError("Hive's own compaction has changed what readers see")

    def _seen(self) -> list[str]:
        write_ids, txns = self.current
        rows = self.hive.read(self.directory, write_ids=write_ids, txns=txns, row_type=self.row_type)
        return sorted(str(row) for row in rows)

    def _publish(self, written: Sequence[Path]) -> None:
        """By the name of the version: Hive 4's bears a transaction, which aborts now and then; Hive 3's base a mark."""
        txn = self.next_txn()
        if self.hive.version == 4 and self._rng.random() < 0.2:
            self._aborted_txns.add(txn)
        for path in written:
            if self.hive.version == 4:
                path.rename(self.directory / f"{path.name}_v{txn:07}")
            elif not (self.directory / path.name).exists():  # as Hive 3 has it, which compacts nothing twice
                if path.name.startswith("base_"):
                    (path / METADATA_ACID).write_bytes(METADATA_ACID_CONTENT)
                path.rename(self.directory / path.name)


def _holds_events(directory: Path) -> bool:
    return all(path.name.startswith(("bucket_", "_")) for path in directory.iterdir())
