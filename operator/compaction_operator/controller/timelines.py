"""Looks at Hudi tables for a policy: the timeline of each, and the log files of those that are due. Without Hudi."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.config import Warehouse
from compaction_operator.api.hudi import HudiOptions
from compaction_operator.api.policy import CompactionPolicySpec, Thresholds
from compaction_operator.cleanup.places import require_allowed, require_reachable
from compaction_operator.controller.problems import opted_out_problem, problem_of, unread
from compaction_operator.hudi import (
    Commits,
    HudiError,
    HudiTable,
    LogSizes,
    bundle_for,
    commits_of,
    read_table,
    sizes_of,
    timeline_folder,
    write_options,
)
from compaction_operator.metastore import Refused, Table
from compaction_operator.policy.hudi_options import hudi_options
from compaction_operator.policy.memory import Problem, TableState, remembered
from compaction_operator.policy.ranking import weight_of
from compaction_operator.policy.selection import opted_out
from compaction_operator.policy.thresholds import ThresholdError, due, overridden
from compaction_operator.policy.timeline import TimelineMeasure
from compaction_operator.storage import EntryKind, Storage, StorageError, is_passing, join, normal, place_of

FOLDERS_OF_TABLE = 1_000
FOLDERS_AT_ONCE = 2_000
"""Folders to list in one look for the sizes of log files: of one table, where those beyond do not count, and after how
many no other table follows."""

SAME_TABLE = "SameTable"
"""The problem of a table that is another one by another name, such as `orders_rt` of `orders_ro`."""

TYPES = (CompactionType.LOG_COMPACTION, CompactionType.COMPACTION)


@dataclass(frozen=True)
class Timelines:
    """The Hudi tables of one look.

    `owners` has the table that stands for each place, as a table may have several names. `silent` are the stores that
    did not answer in this look, and `folders` counts what was listed for the sizes of log files, by table.
    """

    open_storage: Callable[[str], Storage]
    warehouse: Warehouse
    spec: CompactionPolicySpec
    now: datetime
    owners: dict[str, str]
    silent: set[int] = field(default_factory=set)
    folders: Counter[str] = field(default_factory=Counter)

    @property
    def has_read_enough(self) -> bool:
        """Whether the other tables are to be read in the next look."""
        return self.folders.total() >= FOLDERS_AT_ONCE

    def state(self, name: str, table: Table, old: TableState | None) -> TableState:
        """Return what is known of a table after its timeline was read."""
        state = TableState(name, "", self.now, place="")
        try:
            require_reachable(table, self.warehouse)
            place = place_of(table.location)
            state = replace(state, place=place)
            if (owner := self.owners.setdefault(place, name)) != name:
                return replace(state, problem=_alias(name, owner, table.location))
            if opted_out(table.parameters):
                return replace(state, problem=opted_out_problem(name))
            require_allowed(table, self.warehouse)
            thresholds, weight = overridden(self.spec.thresholds, table.parameters), weight_of(table.parameters)
            return self._read(replace(state, thresholds=thresholds, weight=weight), table, old)
        except (ThresholdError, Refused, HudiError, StorageError) as error:
            return unread(state, old, problem_of(name, error))

    def _read(self, state: TableState, table: Table, old: TableState | None) -> TableState:
        storage, location = self._storage(table.location), normal(table.location)
        try:
            hudi = read_table(storage, location)
            options = self._options(hudi, state.thresholds, table.parameters)
            commits = commits_of(entry.name for entry in storage.list(timeline_folder(hudi)))
            state = replace(state, version=commits.version, plans=commits.plans)
            state = replace(state, hudi=options, given=self.warehouse.hudi.options)
            if old and _same(old, state):
                return replace(state, partitions=old.partitions)
            found = self._measure(storage, hudi, commits, state)
        except StorageError as error:
            if is_passing(error):
                self.silent.add(id(storage))
            raise
        earlier = old.partitions[0] if old and old.partitions else None
        kept = remembered("", table.create_time, found, earlier=earlier, now=self.now)
        return replace(state, partitions=(kept,) if kept else ())

    def _storage(self, location: str) -> Storage:
        storage = self.open_storage(location)
        if id(storage) in self.silent:
            raise StorageError("its store did not answer in this look", passing=True)
        return storage

    def _options(
        self, table: HudiTable, thresholds: Thresholds, parameters: Mapping[str, str]
    ) -> dict[CompactionType, HudiOptions]:
        """Return the options of both types. Raises HudiError for a table whose compaction would be refused."""
        table.require_merge_on_read()
        template, given = self.spec.template.hudi, self.warehouse.hudi.options
        bundle_for(table, template.bundle)
        found = {type_: hudi_options(template, table, thresholds, parameters, type_) for type_ in TYPES}
        for own in found.values():
            write_options(table, warehouse=given, own=own, partitions=())
        return found

    def _measure(self, storage: Storage, hudi: HudiTable, commits: Commits, state: TableState) -> TimelineMeasure:
        # NB: what must not be merged is no log block to the thresholds and scores. A full compaction takes it.
        may_merge = not hudi.shares_log_files
        found = TimelineMeasure(commits.since_compaction, commits.since_merge if may_merge else 0)
        if due(found, state.thresholds, aborted_for=timedelta()):
            limit = state.hudi[CompactionType.LOG_COMPACTION].max_log_file_size_to_merge
            files = self._files(state.name, storage, hudi.location)
            sizes = sizes_of(files, hudi, pending=commits.pending, limit=limit)
            found = replace(found, sizes=sizes if may_merge else replace(sizes, small=LogSizes()))
        return found

    def _files(self, name: str, storage: Storage, location: str) -> Iterator[tuple[str, str, int]]:
        """Yield folder, name and size of the files of a table, without those of its timeline and metadata table.

        The folders with the last names come first: of partitions by date these are the ones that are written to.
        """
        left = [location]
        while left and self.folders[name] < FOLDERS_OF_TABLE:
            folder = left.pop()
            self.folders[name] += 1
            for entry in storage.list(folder):
                if entry.kind is EntryKind.FILE:
                    yield folder, entry.name, entry.size
                elif entry.kind is EntryKind.DIRECTORY and not entry.name.startswith("."):
                    left.append(join(folder, entry.name))


def _same(old: TableState, new: TableState) -> bool:
    """Whether what is known of a table's files still holds: neither its timeline nor what decides has changed."""
    known = (old.version, old.thresholds, old.hudi)
    return old.problem is None and known == (new.version, new.thresholds, new.hudi)


def _alias(name: str, owner: str, location: str) -> Problem:
    return Problem(SAME_TABLE, f"table {name} lies at {location}, and so does table {owner}, which stands for both")
