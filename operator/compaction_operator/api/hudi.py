"""What a compaction of a Hudi table may be told, and what it tells of itself. Options bear Hudi's own names."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from compaction_operator.api.model import ReadModel, Size, counted

LISTED = 4
LISTED_CHARACTERS = 80
REASON_CHARACTERS = 300
"""How much of a status a termination message can hold: so many instants of a list, and so much of each text."""

BUNDLE_PATTERN = r"^[0-9]{1,3}(\.[0-9]{1,3}){2}$"


class HudiMode(StrEnum):
    """Whether a plan is only put onto the table's timeline, only taken from there, or both in one run."""

    SCHEDULE = "Schedule"
    EXECUTE = "Execute"
    SCHEDULE_AND_EXECUTE = "ScheduleAndExecute"


class HudiOptions(ReadModel):
    """How a Hudi table is compacted.

    `options` are handed on to Hudi under its own names. `max_log_file_size_to_merge` leaves larger log files out of a
    log compaction (bytes). `single_writer` declares that nobody else writes while this runs, so that no lock provider
    is needed. `all_instants` lets it also run, roll back or remove plans that somebody else made. `bundle` is the
    version of Hudi that does the work, by default the one that fits the table's version.
    """

    mode: HudiMode = HudiMode.SCHEDULE_AND_EXECUTE
    options: dict[str, str] = Field(default_factory=dict)
    max_log_file_size_to_merge: Size | None = None
    metadata_table: bool = False
    single_writer: bool = False
    all_instants: bool = False
    clean: bool = False
    archive: bool = False
    bundle: Annotated[str, Field(pattern=BUNDLE_PATTERN)] | None = None


class HudiStatus(ReadModel):
    """What a run found on a Hudi table's timeline and did there; sizes in bytes.

    `instant` is the one that was planned or run, with its `action` (logcompaction, compaction) and `state` (Requested,
    Completed). Blocks are log blocks: those that are merged, and those that they became; bytes are theirs and, where
    base files are merged too, those of the base files.
    `write_amplification` is what was written to the table since the last full compaction, for each byte of it that
    writers brought, as a decimal number. `nothing_planned` says why there was nothing to do.
    """

    table_version: int | None = None
    bundle: str | None = None
    instant: str | None = None
    action: str | None = None
    state: str | None = None
    file_groups: int = 0
    blocks_in: int = 0
    blocks_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    write_amplification: str | None = None
    rolled_back: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    cleaned: str | None = None
    nothing_planned: str | None = None

    def shortened(self) -> "HudiStatus":
        """Return the status as it fits into a termination message: of long lists the beginning, and how many more."""
        lists = ("rolled_back", "removed", "pending", "stale")
        why = self.nothing_planned
        return self.model_copy(
            update={name: _beginning(getattr(self, name)) for name in lists}
            | {"nothing_planned": why and why[:REASON_CHARACTERS]}
        )

    def __str__(self) -> str:
        if self.instant is None:
            return self.nothing_planned or "nothing to compact"
        groups = counted(self.file_groups, "file group")
        found = f"{groups}, {counted(self.blocks_in, 'block')} ({self.bytes_in} bytes)"
        became = f" became {self.blocks_out} ({self.bytes_out} bytes)" if self.state == "Completed" else ""
        return f"{self.action} {self.instant} {self.state}: {found}{became}"


def _beginning(instants: tuple[str, ...]) -> tuple[str, ...]:
    listed = tuple(instant[:LISTED_CHARACTERS] for instant in instants[:LISTED])
    return (*listed, f"and {len(instants) - LISTED} more") if len(instants) > LISTED else listed
