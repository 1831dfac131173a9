"""Options and status of a Hudi compaction. Hudi options keep Hudi's own names."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from compaction_operator.api.model import ReadModel, Size, counted

LISTED = 4
LISTED_CHARACTERS = 80
REASON_CHARACTERS = 300
"""Limits of a status in a termination message: instants per list, characters per instant and per reason."""

BUNDLE_PATTERN = r"^[0-9]{1,3}(\.[0-9]{1,3}){2}$"


class HudiMode(StrEnum):
    """Whether a run schedules a plan on the table's timeline, executes a scheduled plan, or does both."""

    SCHEDULE = "Schedule"
    EXECUTE = "Execute"
    SCHEDULE_AND_EXECUTE = "ScheduleAndExecute"


class HudiOptions(ReadModel):
    """Options for compacting a Hudi table.

    - `options` are passed to Hudi under its own names.
    - `max_log_file_size_to_merge` (bytes) excludes larger log files from a log compaction.
    - `single_writer` declares that no other client writes during the run, so no lock provider is needed.
    - `all_instants` allows the run to also execute, roll back or remove plans that other clients made.
    - `bundle` is the Hudi version that does the work. The default is the version that matches the table version.
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
    """What a run found and did on a Hudi table's timeline. Sizes are in bytes.

    - `instant` was planned or executed. It has an `action` (logcompaction, compaction) and a `state` (Requested,
      Completed).
    - `blocks_in` and `blocks_out` count the log blocks merged and written: in a file group one for each instant. The
      bytes also include base files if those are merged.
    - `write_amplification` is a decimal number: bytes written to the table since its last full compaction, for each
      byte that writers added.
    - `files_deleted` are the cleaner's files, `archived` the instants that left the active timeline.
    - `nothing_planned` is the reason why there was nothing to do.
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
    files_deleted: int = 0
    archived: int = 0
    nothing_planned: str | None = None

    def shortened(self) -> "HudiStatus":
        """Return the status shortened for a termination message. Long lists keep their beginning and a count."""
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
