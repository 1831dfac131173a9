"""One read of one partition through Hive's own reader, held against what its snapshot must see."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from sandbox.harness.places import Place, files_below, size_of

from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from tests.integration.oracle.hive import HiveOracle, OracleError
from tests.soak.storm.model import Rows, difference
from tests.soak.storm.tables import ROW_TYPE, StormTable

log = logging.getLogger(__name__)


class StormError(AssertionError):
    """What ends a storm: an error or wrong rows for a reader, something failed or left; the message says it all."""


class VanishedError(StormError):
    """What a reader had listed was gone when it looked into it, while it was choosing its files."""


class Snapshot(NamedTuple):
    """What a reader holds: the write ids of its table that it sees, and the transactions."""

    write_ids: ValidWriteIdList
    txns: ValidTxnList


class PlannedRead:
    """A read whose files are chosen, as those of a query that has started; `rows` opens them. Both raise StormError."""

    def __init__(
        self, hive: HiveOracle, table: StormTable, place: str, snapshot: Snapshot, *, who: str, vectorized: bool
    ) -> None:
        self._hive = hive
        self._table = table
        self._place = place
        self._snapshot = snapshot
        self._who = f"{who}, the {'vectorised' if vectorized else 'row'} reader of Hive {hive.version}"
        self._before = _listing(table.path(place))
        try:
            self._plan = hive.plan(
                table.path(place),
                write_ids=str(snapshot.write_ids),
                txns=str(snapshot.txns),
                row_type=ROW_TYPE,
                vectorized=vectorized,
            )
        except OracleError as error:
            kind = VanishedError if "FileNotFoundException" in str(error) else StormError
            raise self._fault(f"choosing the files: {error}\n{error.trace}", kind=kind) from error

    def rows(self) -> Rows:
        """Return the rows, which are those that the snapshot must see."""
        try:
            seen = self._hive.read_plan(self._plan)
        except OracleError as error:
            raise self._fault(f"reading the files: {error}\n{error.trace}") from error
        history, sees = self._table.histories[self._place], self._snapshot.write_ids.is_valid
        expected = history.rows(sees)
        wrong = difference(expected, seen, fate=lambda found: history.fate(found, sees))
        if wrong:
            raise self._fault(f"{len(expected)} rows expected, {len(seen)} read\n{wrong}")
        return expected

    def _fault(self, what: str, *, kind: type[StormError] = StormError) -> StormError:
        path = self._table.path(self._place)
        return kind(
            f"{self._who}: {self._table.name} {self._place}\n"
            f"write ids: {self._snapshot.write_ids}\ntransactions: {self._snapshot.txns}\n{what}\n"
            f"listing right before: {' '.join(self._before)}\n"
            f"listing now: {' '.join(_listing(path))}\n" + "\n".join(_files(path))
        )


def _listing(path: Place) -> Sequence[str]:
    return sorted(child.name for child in path.iterdir())


def _files(path: Place) -> Sequence[str]:
    return sorted(f"  {file.relative_to(path)}: {_size(file)} bytes" for file in files_below(path))


def _size(path: Place) -> int | str:
    try:
        return size_of(path)
    except FileNotFoundError:
        return "no more"
