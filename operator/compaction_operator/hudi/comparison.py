"""The comparison of a merged log block with its originals, without Hudi, before a log compaction is committed.

It replays both by the rules of `merging` and compares key by key: deletes, ordering values and rows. The columns that
Hudi adds are not compared, as some releases give merged records a commit time of their own.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from typing import BinaryIO
from zlib import crc32

from compaction_operator.api.model import counted
from compaction_operator.hudi.contents import ContentError, Contents
from compaction_operator.hudi.errors import HudiError
from compaction_operator.hudi.log_blocks import LogFile
from compaction_operator.hudi.log_format import COMMAND, LogFormatError, RawBlock, read_blocks
from compaction_operator.hudi.outcomes import Change, difference, outcomes
from compaction_operator.hudi.plans import Operation, Plan

BUDGET = 32 << 20
"""Bytes of original blocks that one comparison keeps at most: some 100 MB of the driver's memory, and a few seconds."""

OpenFile = Callable[[str, str], AbstractContextManager[BinaryIO]]
"""Opens a file by its partition and name."""


class MergedWronglyError(HudiError):
    """A merged log block would show other rows than its originals. Nothing is committed."""


@dataclass(frozen=True)
class Rule:
    """How records of a table are merged: by these ordering fields, or by commit time where there are none.

    `numbered` is HudiTable.numbers_log_files.
    """

    ordering_fields: tuple[str, ...]
    numbered: bool


@dataclass(frozen=True)
class Compared:
    """How much was compared: file groups, out of how many, and their keys; one in `sample` keys of a large file group.

    `why_not` says why file groups were left out that could not be compared, empty if there are none.
    """

    groups: int
    of: int
    keys: int
    sample: int = 1
    why_not: str = ""

    def __str__(self) -> str:
        keys = f"1 in {self.sample} of its keys: {self.keys}" if self.sample > 1 else counted(self.keys, "key")
        left = f"; not compared: {self.why_not}" if self.why_not else ""
        return f"{self.groups} of {counted(self.of, 'file group')} ({keys}) compared with the originals{left}"


@dataclass(frozen=True)
class _Wanted:
    """Blocks of a file group: those of some instants, and of these one in `sample` keys."""

    partition: str
    sample: int
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
                for key, change in contents.changes(file, block):
                    if self.sample == 1 or not crc32(key.encode()) % self.sample:
                        yield key, change


def compare(plan: Plan, written: Mapping[str, Sequence[str]], *, rule: Rule, open_file: OpenFile) -> Compared:
    """Compare what a log compaction wrote (the log files of each file id) with what it merged.

    All file groups are compared if their originals have at most BUDGET bytes. Otherwise it is as many as fit, or of the
    smallest one a part of the keys. Raises MergedWronglyError, naming file group and key, and OSError.
    """
    sizes = {one.file_id: sum(file.size for file in replayed(one.files, by_number=False)) for one in plan.operations}
    sample = chosen(sizes, seed=plan.instant)
    groups = keys = 0
    why_not = ""
    for operation in (one for one in plan.operations if one.file_id in sample):
        wanted = _Wanted(operation.partition, sample[operation.file_id], open_file)
        try:
            keys += _compare(operation, written[operation.file_id], plan.instant, rule, wanted)
        except (ContentError, LogFormatError) as error:
            why_not = why_not or f"file group {operation.file_id}: {error}"
        else:
            groups += 1
    return Compared(groups, len(plan.operations), keys, max(sample.values(), default=1), why_not)


def chosen(sizes: Mapping[str, int], *, seed: str) -> dict[str, int]:
    """Return the file groups to compare, by their sizes in bytes, and for each of how many keys one is compared."""
    found, left = {}, BUDGET
    for name in sorted(sizes, key=lambda name: blake2b(f"{seed} {name}".encode()).digest()):
        if sizes[name] <= left:
            found[name] = 1
            left -= sizes[name]
    if sizes and not found:
        smallest = min(sizes, key=lambda name: sizes[name])
        found[smallest] = -(-sizes[smallest] // BUDGET)
    return found


def replayed(files: Iterable[LogFile], *, by_number: bool) -> list[LogFile]:
    """Return the log files that a reader replays, in that order: by instant, or by the number in the name.

    What a merged block replaces is left out, as is what was rolled back. A merged block stands in the place of its
    newest original.
    """
    found = list(files)
    hidden = hidden_instants(found)

    def place(file: LogFile) -> tuple[int, str, int]:
        replaced = (one for one in found if file.replaces & {*one.instants} and one is not file)
        return max(map(place, replaced), default=own(file))

    def own(file: LogFile) -> tuple[int, str, int]:
        number = int(file.name.rpartition(".log.")[2].partition("_")[0])
        return (number, "", 0) if by_number else (0, max(file.instants), number)

    return sorted((file for file in found if not {*file.instants} <= hidden), key=place)


def hidden_instants(files: Collection[LogFile]) -> frozenset[str]:
    """Return the instants whose blocks readers skip: replaced ones, and those that were rolled back."""
    return frozenset().union(*(file.replaces | file.rolls_back for file in files))


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
    originals = (file.name for file in replayed(operation.files, by_number=rule.numbered))
    try:
        before = outcomes(wanted.changes(originals, lambda one: one not in hidden, contents))
        after = outcomes(wanted.changes(names, is_merged, contents))
    except TypeError as error:
        raise ContentError(f"ordering values of two types: {error}") from error
    if why := difference(before, after):
        raise _wrong(operation, instant, why)
    return len(before)


def _wrong(operation: Operation, instant: str, why: str) -> MergedWronglyError:
    return MergedWronglyError(
        f"the merged log block of log compaction {instant} in file group {operation.file_id} is not what its "
        f"originals are: {why}; nothing was committed: leave this table's log compaction to another release "
        "(hudi.bundle), or compact it fully"
    )
