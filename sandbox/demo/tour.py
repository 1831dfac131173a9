"""A tour without a cluster: plan, compact and read back one real Hive table with the offline verbs.

`make try` runs it, as `python -m sandbox.demo.tour` from the repository's root. The table is a copy, in `build/try`,
of a fixture that real Hive 3.1.3 wrote. Each step compares the rows with what Hive's own reader saw. The last line
says how the tour ended.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pyarrow import orc

from sandbox.demo.story import CheckError, Story
from sandbox.harness import rows

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "hive-3.1.3" / "bucketed"
WRITE_IDS = "ma.bucketed:5:9223372036854775807::"
"""What a reader sees after the fifth write: all write ids up to 5, none of them open or aborted."""

ROW_BAR = 3
"""Rows and delete events for each full block of a bar."""


class VerbError(Exception):
    """An offline verb ended with an exit code other than 0; carries its standard error."""


@dataclass(frozen=True)
class DirectoryStats:
    """One directory of the table: data files, their size in bytes, and the events (rows or deletes) that they hold."""

    name: str
    files: int
    size: int
    events: int
    current: bool  # a reader of the newest snapshot opens it

    def drawn(self, width: int) -> str:
        """Return one line: the mark of a current directory, name, figures, and a bar for the events."""
        bar = ("█" if self.current else "░") * -(-self.events // ROW_BAR)
        mark = "▸" if self.current else " "
        return f"{mark} {self.name:<{width}}  {self.files:>5}  {self.size:>6,}  {self.events:>6}  {bar}".rstrip()


def directory_stats(table: Path) -> list[DirectoryStats]:
    """Return the table's directories, bases first, each with what a reader of the newest snapshot makes of it."""
    names = sorted((path.name for path in table.iterdir() if path.is_dir()), key=_reading_order)
    current = rows.current(names, rows.visible(WRITE_IDS))
    found = []
    for name in names:
        files = sorted((table / name).glob("bucket_*"))
        size = sum(path.stat().st_size for path in files)
        events = sum(orc.ORCFile(path).nrows for path in files)
        found.append(DirectoryStats(name, len(files), size, events, name in current))
    return found


def _reading_order(name: str) -> tuple[bool, str, bool]:
    """Return a sort key: bases, then deltas by their write ids, each followed by its delete delta."""
    return not name.startswith("base_"), name.removeprefix("delete_"), name.startswith("delete_")


def picture(table: Path) -> str:
    """Return the table's directories as text, one line each, and what a reader opens."""
    found = directory_stats(table)
    width = max(len(stats.name) for stats in found)
    opened = [stats for stats in found if stats.current]
    return "\n".join(
        [
            f"  {'DIRECTORY':<{width}}  {'FILES':>5}  {'BYTES':>6}  {'EVENTS':>6}",
            *(stats.drawn(width) for stats in found),
            f"▸ a reader opens {len(opened)} of {len(found)} directories, {sum(stats.files for stats in opened)} files",
        ]
    )


def read_back(table: Path) -> list[str]:
    """Return the rows that a reader sees, with their ROW__IDs, sorted."""
    found = rows.rows(table, rows.every, rows.visible(WRITE_IDS))
    return sorted(_line(*key, row) for key, row in found.items())


def rows_of_hive() -> list[str]:
    """Return the rows that Hive's own reader saw in the fixture before any compaction, as `read_back` does."""
    lines = (FIXTURE / "oracle3-before.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return sorted(_line(row["writeid"], row["bucket"], row["rowid"], row["row"]) for row in found)


def _line(write_id: int, bucket: int, row_id: int, row: object) -> str:
    return f"{write_id}/{bucket}/{row_id} {json.dumps(row, sort_keys=True)}"


class Tour:
    """The tour of one table. The steps build on each other and run in the order of `run`."""

    def __init__(self, table: Path, story: Story) -> None:
        self._table = table
        self._story = story
        self._hive = rows_of_hive()
        self._files_at_start = sum(stats.files for stats in directory_stats(table))

    def run(self) -> None:
        """Run all steps; raises CheckError or VerbError where one does not go as told."""
        self.show_table()
        self.plan()
        self.compact(
            "minor",
            "Compact: minor",
            """A minor compaction merges small deltas into one delta and one delete delta. It keeps every event,
            so an older snapshot can still read the output. The offline verb leaves the old directories in
            place.""",
            writes=["delete_delta_0000001_0000005", "delta_0000001_0000005"],
        )
        self.compact(
            "major",
            "Compact: major",
            """A major compaction applies the deletes and writes one base. A reader of the newest snapshot opens
            that base alone.""",
            writes=["base_0000005"],
        )
        self.next_steps()

    def show_table(self) -> None:
        """Show the table as Hive left it."""
        with self._story.step(
            "A table that Hive wrote",
            """A copy of a table with four buckets. Hive 3.1.3 wrote it in five transactions: inserts, updates and
            deletes. Each transaction left a delta, a delete delta, or both.""",
        ):
            self._show()

    def plan(self) -> None:
        """Show the plan of a major compaction, which writes nothing."""
        with self._story.step(
            "Plan",
            """`plan` lists the directory and prints what a compaction would write and which directories would
            become obsolete. It writes nothing. --write-ids is the snapshot, as Hive writes it.""",
        ):
            before = directory_stats(self._table)
            self._verb("plan", "major")
            self._story.check("nothing changed", found=directory_stats(self._table), expected=before)

    def compact(self, kind: str, title: str, why: str, *, writes: list[str]) -> None:
        """Compact the table in place and check the new directories and all rows."""
        with self._story.step(title, why):
            before = {stats.name for stats in directory_stats(self._table)}
            self._verb("compact", kind)
            self._show()
            found = {stats.name for stats in directory_stats(self._table)}
            self._story.check("the output has Hive's names", found=found - before, expected=set(writes))
            self._story.check("the old directories are still there", found=before - found, expected=set())

    def next_steps(self) -> None:
        """Say what the tour left out and where to see it."""
        files = sum(stats.files for stats in directory_stats(self._table) if stats.current)
        with self._story.step(
            "What the operator adds",
            f"""A reader opened {self._files_at_start} files before and opens {files} now. Nothing was deleted: an
            older reader may still use an obsolete directory. On a cluster the operator takes locks in the Hive
            metastore, compacts in a Kubernetes Job, and deletes obsolete directories only after every reader that
            may use them has finished.""",
        ):
            self._story.show(
                "Try next:",
                "make demo         the operator on a real Kubernetes node, and a reader that holds a lock (as root)\n"
                "make unit         the unit tests\n"
                "docs/offline.md   plan and compact for a directory of your own\n"
                f"The table of this tour is in {self._shown}.",
            )

    def _show(self) -> None:
        self._story.show(f"{self._shown}:", picture(self._table))
        found = read_back(self._table)
        self._story.check(f"{len(self._hive)} rows, as Hive's own reader sees them", found=found, expected=self._hive)

    def _verb(self, verb: str, kind: str) -> None:
        options = ["--type", kind, "--write-ids", WRITE_IDS]
        program = Path(sys.executable).with_name("compaction-operator")
        command = [str(program), verb, "--location", str(self._table), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise VerbError(done.stderr.strip())
        line = " ".join(["compaction-operator", verb, "--location", self._shown, *options])
        self._story.show(f"$ {line}", done.stderr + done.stdout)

    @property
    def _shown(self) -> str:
        return str(self._table.relative_to(ROOT) if self._table.is_relative_to(ROOT) else self._table)


def main(folder: Path = ROOT / "build" / "try") -> int:
    """Run the tour on a fresh copy of the table in `folder` and return the exit code."""
    table = folder / FIXTURE.name
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(FIXTURE / "before", table)
    story = Story()
    try:
        Tour(table, story).run()
    except (CheckError, VerbError) as error:
        print(f"\ntry: FAIL: {error}")
        return 1
    print(f"\ntry: PASS ({story.seconds:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
