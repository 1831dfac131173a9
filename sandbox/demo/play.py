"""The story, step by step. Every step checks what it shows."""

import time
from collections.abc import Mapping
from pathlib import Path

from sandbox.demo.story import CheckError, Story
from sandbox.demo.telling import telling
from sandbox.harness import expected
from sandbox.harness.reader import Reader
from sandbox.harness.stage import Stage, Warehouse
from sandbox.harness.tables import (
    TABLE_TXN_001,
    TRY_IT,
    WRITER,
    Fixture,
    HiveTable,
    fourth_write,
)

DATABASE = "demo"
UPDATED = "table_txn_002"
READER, LATE_READER = "alice", "bob"
MANIFESTS = Path(__file__).parent
PATIENCE = 360.0
"""Seconds for a cleanup on a busy machine, whose controller tries again when the metastore was too slow."""
FIRST, AGAIN = ("minor-of-inserts", "major-of-partitions"), "major-after-minor"

Names = Mapping[str, frozenset[str]]
"""Directory names by partition ('' for an unpartitioned table)."""


class Play:
    """The demo on one stage. The steps build on each other and are played in the order of `all`."""

    def __init__(self, stage: Stage, warehouse: Warehouse, story: Story) -> None:
        self._stage = stage
        self._warehouse = warehouse
        self._story = story
        self._telling = telling(stage.settings)
        self._rows: dict[HiveTable, list[str]] = {}
        self._inserts = self._updated = self._try_it = HiveTable(DATABASE, "", "")
        self._compacted: list[str] = []
        self._kept = self._current = expected.INSERTS

    def all(self) -> None:
        """Play the whole story; raises CheckError where it does not go as told."""
        self.clean()
        self.create_tables()
        alice = self.start_reader()
        with alice:
            self.compact_under_the_reader()
            if self._telling.again_under_the_reader:
                self.compact_again()
            self.nothing_is_deleted()
            self.release(alice)
        if not self._telling.again_under_the_reader:
            self.compact_again()
            self.cleaned_at_once()
        self.minor_with_deletes()
        self.same_rows()

    def clean(self) -> None:
        """Remove what an earlier demo left."""
        self._warehouse.abandon((READER, LATE_READER, WRITER))
        self._stage.compactions.delete_all()
        for name in (TABLE_TXN_001.name, TRY_IT.name, UPDATED):
            location = f"{self._stage.settings.database_location(DATABASE)}/{name}"
            self._warehouse.writer.drop(HiveTable(DATABASE, name, location))

    def create_tables(self) -> None:
        """Create the tables with their writes."""
        with self._story.step(
            "A Hive writer creates three tables",
            f"""Real Hive {self._telling.hive} wrote the files. Each write has a transaction and a write id of the
            metastore: table_txn_001 (three inserts), try_it (three partitions; inserts, updates and a delete in six
            transactions) and table_txn_002 (three inserts and an update). Each write left a delta directory in
            each partition that it changed. The tables set NO_AUTO_COMPACTION, so Hive leaves them to the
            operator.""",
        ):
            self._inserts = self._create(TABLE_TXN_001)
            self._try_it = self._create(TRY_IT)
            self._updated = self._create(TABLE_TXN_001, name=UPDATED)
            self._warehouse.writer.write(self._updated, fourth_write())
            for table in (self._inserts, self._try_it, self._updated):
                self._rows[table] = self._warehouse.rows(table)
                self._show_files(table)
            self._story.show("all rows that a reader sees, with their ROW__IDs:", self._all_rows())

    def start_reader(self) -> Reader:
        """Open a reader on two tables, as a long query would."""
        with self._story.step(
            f"A reader, {READER}, starts a long query on table_txn_001 and try_it",
            """Her transaction and her SHARED_READ locks are in the metastore. She may read any of these
            directories until she has finished, so none of them may be deleted before.""",
        ):
            reader = self._warehouse.reader(READER)
            reader.lock(self._inserts).lock(self._try_it, self._try_it.partitions)
            self._story.say(f"transaction {reader.txn}, locks {', '.join(map(str, reader.lock_ids))}")
        return reader

    def compact_under_the_reader(self) -> None:
        """Compact both tables while the reader reads."""
        with self._story.step(
            "kubectl apply: compact table_txn_001 (Minor) and try_it (Major)",
            f"""The controller creates a Job for each. The Job's pod is the driver. The first one does its small work
            itself. The second one's resource asks for an executor, so it starts Spark. The drivers write the merged
            files to a staging folder, record in a CompactionCleanup what becomes obsolete, and
            {self._telling.publishing}""",
        ):
            self._apply(*FIRST)
            self._stage.compactions.wait_executor()
            self._kubectl("get", "pods")
            self._await_inserts("minor-of-inserts", expected.AFTER_INSERTS_MINOR, obsolete=expected.INSERTS)
            obsolete = self._guarded(self._telling.try_it)
            self._await("major-of-partitions", outputs=expected.TRY_IT_AFTER_MAJOR, obsolete=obsolete)

    def compact_again(self) -> None:
        """Compact the minor compaction's output, still under the reader where that can be."""
        with self._story.step("kubectl apply: compact table_txn_001 again (Major)", self._telling.again):
            self._apply(AGAIN)
            obsolete = self._kept | self._telling.guard
            self._await_inserts(AGAIN, expected.AFTER_INSERTS_MAJOR, obsolete=obsolete)

    def nothing_is_deleted(self) -> None:
        """Show that the cleanups wait for the reader, and name her."""
        with self._story.step(
            f"While {READER} reads, nothing is deleted",
            """The controller asks the metastore every two seconds. Each cleanup names the reader it waits for.
            Old and new directories lie side by side.""",
        ):
            for compaction in self._compacted:
                self._check_blockers(compaction)
            self._show_resources()
            self._show_files(self._inserts)
            guard = self._telling.guard if AGAIN in self._compacted else frozenset[str]()
            self._check_names(self._inserts, {"": self._kept | guard})
            both = {name: old | expected.TRY_IT_AFTER_MAJOR[name] for name, old in self._telling.try_it.items()}
            self._check_names(self._try_it, self._guarded(both))

    def release(self, reader: Reader) -> None:
        """Let the reader go while a later one stays."""
        with self._story.step(
            f"{LATE_READER} starts to read, then {READER} finishes",
            f"""{LATE_READER} came after the compactions: he reads the new directories, and no cleanup waits for
            him. When {READER}'s transaction ends, the next look at the metastore finds no older reader.
            {self._telling.deleting}""",
        ):
            cleanups = [cleanup for name in self._compacted for cleanup in self._stage.compactions.cleanups(name)]
            with self._warehouse.reader(LATE_READER).lock(self._inserts):
                reader.release()
                released = time.monotonic()
                for cleanup in cleanups:
                    self._stage.compactions.wait_cleaned(cleanup, timeout=PATIENCE)
                self._story.say(f"deleted within {time.monotonic() - released:.1f} s after she finished:")
            self._show_resources()
            self._show_files(self._inserts)
            self._show_files(self._try_it)
            self._kept = self._current
            self._check_names(self._inserts, {"": self._kept})
            self._check_names(self._try_it, expected.TRY_IT_AFTER_MAJOR)

    def cleaned_at_once(self) -> None:
        """Show that a cleanup without older readers waits for nothing."""
        with self._story.step("No reader is left", "The cleanup of the last compaction has no reader to wait for."):
            self._wait_cleaned(AGAIN)
            self._show_files(self._inserts)
            self._check_names(self._inserts, {"": self._current})

    def minor_with_deletes(self) -> None:
        """Compact inserts and deletes together, which takes an exclusive lock."""
        with self._story.step(
            "kubectl apply: compact table_txn_002, which has a delete (Minor)",
            f"""A delta and a delete delta must appear together, or deleted rows would come back.
            {self._telling.pair}""",
        ):
            self._apply("minor-with-deletes")
            obsolete = {"": expected.INSERTS | expected.UPDATE}
            self._await("minor-with-deletes", outputs={"": expected.AFTER_UPDATE_MINOR}, obsolete=obsolete)
            self._wait_cleaned("minor-with-deletes")
            self._show_files(self._updated)
            self._check_names(self._updated, {"": expected.AFTER_UPDATE_MINOR})

    def same_rows(self) -> None:
        """Read all rows back."""
        with self._story.step(
            "The rows are the same", "Every row that is read back has the ROW__ID that it had at the beginning."
        ):
            before = dict(self._rows)
            self._rows = {table: self._warehouse.rows(table) for table in before}
            self._story.show("all rows that a reader sees, with their ROW__IDs:", self._all_rows())
            for table, rows in before.items():
                self._story.check(f"rows and ROW__IDs of {table.name}", found=self._rows[table], expected=rows)
            for kind in ("tcomp", "ccl"):
                self._kubectl("wait", "--for=condition=Complete", kind, "--all", "--timeout=10s")
            self._show_resources()

    def _create(self, fixture: Fixture, *, name: str | None = None) -> HiveTable:
        return self._warehouse.writer.create(fixture, database=DATABASE, name=name)

    def _guarded(self, names: Names) -> Names:
        """Return the names with the guard base, if there is one: a snapshot from before the first base is in use."""
        return {partition: found | self._telling.guard for partition, found in names.items()}

    def _apply(self, *manifests: str) -> None:
        for name in manifests:
            text = (MANIFESTS / f"{name}.yaml").read_text()
            text = text.replace("warehouse: main", f"warehouse: {self._stage.settings.warehouse}")
            self._story.show(f"{name}.yaml:", text)
            self._kubectl("apply", "-f", f"{name}.yaml", manifest=text)

    def _await_inserts(self, compaction: str, output: frozenset[str], *, obsolete: frozenset[str]) -> None:
        """Wait for a compaction of table_txn_001: what it publishes lies beside what was there."""
        self._await(compaction, outputs={"": output}, obsolete={"": obsolete})
        self._kept, self._current = self._kept | output, output

    def _wait_cleaned(self, compaction: str) -> None:
        for cleanup in self._stage.compactions.cleanups(compaction):
            self._stage.compactions.wait_cleaned(cleanup, timeout=PATIENCE)

    def _await(self, compaction: str, *, outputs: Names, obsolete: Names) -> None:
        """Wait until a compaction has succeeded, and check what its journal says."""
        status = self._stage.compactions.wait_succeeded(compaction)
        self._compacted.append(compaction)
        totals = status.totals
        assert totals
        self._story.say(f"{compaction}: {totals.rows_in} rows read, {totals.rows_out} written")
        entries = [
            entry
            for cleanup in self._stage.compactions.cleanups(compaction)
            for entry in self._stage.compactions.journal(cleanup).partitions
        ]
        found = {entry.partition: frozenset(entry.outputs) for entry in entries}
        self._check_each(f"{compaction}: directories published", found, outputs)
        found = {entry.partition: frozenset(item.name for item in entry.obsolete) for entry in entries}
        self._check_each(f"{compaction}: directories obsolete", found, obsolete)

    def _check_blockers(self, compaction: str) -> None:
        for cleanup in self._stage.compactions.cleanups(compaction):
            status = self._stage.compactions.wait_blocked(cleanup)
            users = {blocker.user for blocker in status.blockers}
            self._story.check(f"the cleanup of {compaction} waits for {READER}", found=users, expected={READER})

    def _check_names(self, table: HiveTable, names: Names) -> None:
        """Check what lies in the table's directory or in those of its partitions, hidden names too."""
        for partition, expected_names in names.items():
            found = self._warehouse.toolbox.names(f"{table.location}/{partition}")
            title = f"what lies in {table.name}/{partition}".rstrip("/")
            self._story.check(title, found=self._telling.plain(found), expected=expected_names)

    def _check_each(self, what: str, found: Names, names: Names) -> None:
        if set(found) != set(names):
            raise CheckError(f"{what}: expected partitions {sorted(names)}, found {sorted(found)}")
        for partition, expected_names in sorted(names.items()):
            names_found = found[partition]
            title = f"{what}{f' in {partition}' if partition else ''}: {', '.join(sorted(names_found))}"
            self._story.check(title, found=self._telling.plain(names_found), expected=expected_names)

    def _show_files(self, table: HiveTable) -> None:
        self._story.show(f"{table.location}:", self._warehouse.toolbox.listing(table.location))

    def _show_resources(self) -> None:
        self._kubectl("get", "tcomp,ccl")

    def _kubectl(self, *arguments: str, manifest: str | None = None) -> None:
        """Run and show a command; a manifest comes in where the command that is shown names its file."""
        where = ("-n", self._stage.settings.namespace)
        run = ("apply", "-f", "-") if manifest else arguments
        printed = self._stage.cluster.kubectl(*run, *where, stdin=manifest)
        self._story.show(f"$ kubectl {' '.join((*arguments, *where))}", printed)

    def _all_rows(self) -> str:
        return "\n".join(f"{table.name}: {row}" for table, rows in self._rows.items() for row in rows)
