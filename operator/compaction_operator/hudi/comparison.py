"""The comparison of a merged log block with its originals, without Hudi, before a log compaction is committed.

It replays both by the rules of `merging` and compares key by key: deletes, ordering values and rows. The columns that
Hudi adds are not compared, as some releases give merged records a commit time of their own.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from typing import BinaryIO

from compaction_operator.api.model import counted
from compaction_operator.hudi.contents import ContentError, Contents
from compaction_operator.hudi.errors import HudiError
from compaction_operator.hudi.log_blocks import LogFile
from compaction_operator.hudi.log_format import COMMAND, LogFormatError, RawBlock, read_blocks
from compaction_operator.hudi.outcomes import Change, difference, outcomes
from compaction_operator.hudi.plans import Operation, Plan
from compaction_operator.storage import StorageError

BUDGET = 8 << 20
"""Bytes of original blocks that one comparison reads at most: it takes seconds, and some ten MB of the driver's memory.

File groups that do not fit are not compared.
"""

_UNREADABLE = (LogFormatError, OSError, StorageError)

OpenFile = Callable[[str, str], AbstractContextManager[BinaryIO]]
"""Opens a file by its partition and name."""


class MergedWronglyError(HudiError):
    """A merged log block would show other rows than its originals. Nothing is committed."""


@dataclass(frozen=True)
class Rule:
    """How records of a table are merged: by these ordering fields, or by commit time where there are none."""

    ordering_fields: tuple[str, ...]


@dataclass(frozen=True)
class Compared:
    """How much was compared: file groups, out of how many, and their keys.

    `why_not` says why file groups were left out that could not be compared, empty if there are none.
    """

    groups: int
    of: int
    keys: int
    why_not: str = ""

    def __str__(self) -> str:
        keys = counted(self.keys, "key")
        left = f"; not compared: {self.why_not}" if self.why_not else ""
        return f"{self.groups} of {counted(self.of, 'file group')} ({keys}) compared with the originals{left}"


@dataclass(frozen=True)
class _Wanted:
    """Blocks of a file group: those of some instants."""

    partition: str
    open_file: OpenFile

    def blocks(self, name: str, instants: Callable[[str], bool]) -> Iterator[tuple[BinaryIO, RawBlock]]:
        with self.open_file(self.partition, name) as file:
            for block in read_blocks(file):
                if block.kind != COMMAND and instants(block.header.instant):
                    yield file, block

    def changes(
        self, names: Iterable[str], instants: Callable[[str], bool], contents: Contents
    ) -> Iterator[tuple[str, Change]]:
        for name in names:
            for file, block in self.blocks(name, instants):
                yield from contents.changes(file, block)


def compare(plan: Plan, written: Mapping[str, Sequence[str]], *, rule: Rule, open_file: OpenFile) -> Compared:
    """Compare what a log compaction wrote (the log files of each file id) with what it merged.

    Raises MergedWronglyError, naming file group and key; LogFormatError and OSError if a merged block cannot be read.
    """
    left, groups, keys = _left_out(plan), 0, 0
    for operation in plan.operations:
        if operation.file_id in left:
            continue
        wanted = _Wanted(operation.partition, open_file)
        try:
            keys += _compare(operation, written[operation.file_id], plan.instant, rule, wanted)
        except (MergedWronglyError, *_UNREADABLE):
            raise
        except Exception as error:  # NB: what cannot be read here may be right for Hudi.
            kind = "" if isinstance(error, ContentError) else f"{type(error).__name__}: "
            left[operation.file_id] = f"{kind}{error}"
        else:
            groups += 1
    why_not = next((f"file group {name}: {why}" for name, why in left.items()), "")
    return Compared(groups, len(plan.operations), keys, why_not)


def _left_out(plan: Plan) -> dict[str, str]:
    """Return the file groups that are not compared, and why.

    NB: writers without locks name the first file group of each bucket alike in all partitions.
    """
    sizes = {one.file_id: sum(file.size for file in replayed(one.files)) for one in plan.operations}
    fitting = chosen(sizes, seed=plan.instant)
    large = {name: f"over the {BUDGET >> 20} MiB that are read" for name in sizes if name not in fitting}
    number = Counter(one.file_id for one in plan.operations)
    return large | {name: "another partition has one of that name" for name in sizes if number[name] > 1}


def chosen(sizes: Mapping[str, int], *, seed: str) -> frozenset[str]:
    """Return the file groups to compare, by their sizes in bytes: as many as fit into BUDGET, in an order by chance."""
    found, left = set(), BUDGET
    for name in sorted(sizes, key=lambda name: blake2b(f"{seed} {name}".encode()).digest()):
        if sizes[name] <= left:
            found.add(name)
            left -= sizes[name]
    return frozenset(found)


def replayed(files: Iterable[LogFile]) -> list[LogFile]:
    """Return the log files that a reader replays, in the order of their instants.

    What a merged block replaces is left out, as is what was rolled back. A merged block stands in the place of its
    newest original.
    """
    found = list(files)
    hidden = hidden_instants(found)

    def place(file: LogFile) -> tuple[str, int]:
        replaced = (one for one in found if file.replaces & {*one.instants} and one is not file)
        return max(map(place, replaced), default=own(file))

    def own(file: LogFile) -> tuple[str, int]:
        return max(file.instants), int(file.name.rpartition(".log.")[2].partition("_")[0])

    return sorted((file for file in found if not {*file.instants} <= hidden), key=place)


def hidden_instants(files: Collection[LogFile]) -> frozenset[str]:
    """Return the instants whose blocks readers skip: those that were rolled back, and those that others replace."""
    rolled_back = frozenset().union(*(file.rolls_back for file in files))
    return rolled_back.union(*(file.replaces for file in files if not {*file.instants} <= rolled_back))


def _compare(operation: Operation, names: Sequence[str], instant: str, rule: Rule, wanted: _Wanted) -> int:
    """Compare one file group, and return how many keys it has."""

    def is_merged(one: str) -> bool:
        return one == instant

    headers = [block for name in names for _, block in wanted.blocks(name, is_merged)]
    known = {one for file in operation.files for one in (*file.instants, *file.replaces)}
    if unknown := frozenset().union(*(block.header.replaces for block in headers)) - known:
        raise _wrong(operation, instant, f"it hides {', '.join(sorted(unknown))}, which it does not contain")
    schema = next((block.schema for block in headers), "")
    if not headers:
        raise _wrong(operation, instant, "there is none")
    contents = Contents(schema, rule.ordering_fields)
    hidden = hidden_instants(operation.files)
    originals = (file.name for file in replayed(operation.files))
    try:
        before = outcomes(wanted.changes(originals, lambda one: one not in hidden, contents))
    except _UNREADABLE as error:  # NB: Hudi may read what is not read here.
        raise ContentError(f"{type(error).__name__}: {error}") from error
    after = outcomes(wanted.changes(names, is_merged, contents))
    if why := difference(before, after):
        raise _wrong(operation, instant, why)
    return len(before)


def _wrong(operation: Operation, instant: str, why: str) -> MergedWronglyError:
    return MergedWronglyError(
        f"the merged log block of log compaction {instant} in file group {operation.file_id} is not what its "
        f"originals are: {why}; nothing was committed: compact the table fully (type Compaction), or use another "
        "release if it serves the table (hudi.bundle)"
    )
