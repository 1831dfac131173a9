"""One receipt: a line of JSON that says what was compacted or deleted, why, and after waiting for whom."""

import hashlib
import json
from enum import StrEnum

from pydantic import ValidationError

from compaction_operator.api.cleanup import Blocker
from compaction_operator.api.compaction import Forecast, Totals
from compaction_operator.api.hudi import HudiStatus
from compaction_operator.api.model import ReadModel
from compaction_operator.errors import OperatorError

GENESIS = "0" * 64
"""What the first receipt has for the hash of the one before."""


class DamagedReceiptError(OperatorError, ValueError):
    """A receipt is not a line that this project wrote. The message says why."""


class Kind(StrEnum):
    """What a receipt is about."""

    COMPACTION = "Compaction"
    DELETION = "Deletion"


class DeletedName(ReadModel):
    """A deleted directory or original file: its bare name, why it was obsolete, and what it held (size in bytes)."""

    name: str
    reason: str
    files: int
    size: int


class Part(ReadModel):
    """What one directory lost: a table's, a partition's, or the quarantine's.

    The checksums are those of its listing: the SHA-256 of all visible paths and their sizes.
    """

    partition: str
    location: str
    deleted: tuple[DeletedName, ...]
    listing_before: str
    listing_after: str = ""


class WaitedFor(ReadModel):
    """Whom a deletion waited for: the older readers of `since`, all gone at `until`. Times are RFC 3339."""

    since: str
    until: str | None = None
    readers: tuple[Blocker, ...] = ()


class Receipt(ReadModel):
    """What one compaction did, or what one pass of a cleanup deleted. Sizes are in bytes, times RFC 3339.

    `number` counts from 1, `previous` is the SHA-256 of the line before, and `time` is when it was written; the ledger
    sets these. `started` is when the compaction or the pass began. `reason` and `message` are those of the compaction's
    Succeeded condition, or why its cleanup deleted.
    """

    number: int = 0
    previous: str = GENESIS
    time: str = ""
    kind: Kind
    warehouse: str
    table: str
    namespace: str
    compaction: str
    compaction_uid: str
    attempt: int
    reason: str
    message: str = ""
    type: str | None = None
    started: str | None = None
    totals: Totals | None = None
    forecast: Forecast | None = None
    cpu_milliseconds: int | None = None
    hudi: HudiStatus | None = None
    cleanup: str | None = None
    cleanup_uid: str | None = None
    waited_for: WaitedFor | None = None
    parts: tuple[Part, ...] = ()
    directories: int = 0
    files: int = 0
    size: int = 0

    @classmethod
    def parse(cls, line: bytes) -> "Receipt":
        """Return the receipt of a line. Raises DamagedReceiptError."""
        try:
            return cls.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise DamagedReceiptError(f"{where}: {first['msg']}") from error

    def line(self) -> bytes:
        """Return the line to store, with its line feed."""
        return json.dumps(self.to_json(), separators=(",", ":"), ensure_ascii=False).encode() + b"\n"

    def with_parts(self, parts: tuple[Part, ...]) -> "Receipt":
        """Return it for these parts, with their sums."""
        names = [name for part in parts for name in part.deleted]
        sums = {"files": sum(name.files for name in names), "size": sum(name.size for name in names)}
        return self.model_copy(update={"parts": parts, "directories": len(names), **sums})


def digest(line: bytes) -> str:
    """Return the SHA-256 of a line, in hexadecimal: what the next receipt says of it."""
    return hashlib.sha256(line).hexdigest()
