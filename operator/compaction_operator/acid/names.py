"""Names in a Hive ACID table or partition directory, and the bucket property of its rows.

The grammar comes from Hive's AcidUtils (`ParsedBase`, `ParsedDelta`, `ORIGINAL_PATTERN`, `DELTA_SIDE_FILE_SUFFIX`),
AbstractFileMergeOperator (`UNION_SUDBIR_PREFIX`) and BucketCodec.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

ORC_ACID_VERSION = "_orc_acid_version"
ORC_ACID_VERSION_CONTENT = b"2"
METADATA_ACID = "_metadata_acid"
METADATA_ACID_CONTENT = b'{"thisFileVersion":"0","dataFormat":"compacted"}'

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1

# NB: file systems allow names of up to 255 bytes, object stores more; Python refuses numbers over 4300 digits
_DIGITS = "[0-9]{1,255}"
_TAIL = rf"(?:_v(?P<txn>{_DIGITS}))?"
_BASE = re.compile(rf"base_(?P<id>-?{_DIGITS}){_TAIL}")
_DELTA = re.compile(
    rf"(?P<kind>delta|delete_delta)_(?P<min>{_DIGITS})_(?P<max>{_DIGITS})(?:_(?P<statement>{_DIGITS}))?{_TAIL}"
)
_BUCKET = re.compile(rf"bucket_(?P<bucket>{_DIGITS})(?:_{_DIGITS})?")
_ORIGINAL = re.compile(rf"(?P<bucket>{_DIGITS})_[0-9]+(?:_copy_{_DIGITS})?")

_UNION_DIRECTORY = re.compile(r"HIVE_UNION_SUBDIR_[0-9]+")
_FLUSH_LENGTH = re.compile(r"bucket_[0-9]+(?:_[0-9]+)?_flush_length")

_CODEC_SHIFT, _BUCKET_SHIFT, _FIELD_MASK = 29, 16, 0xFFF

_REMEMBERED = 1024
"""How many names of each kind a process remembers: planning parses each of a listing several times."""


class DirectoryKind(StrEnum):
    """The kind of an ACID directory. The value is the prefix of its name."""

    BASE = "base"
    DELTA = "delta"
    DELETE_DELTA = "delete_delta"


@dataclass(frozen=True, slots=True)
class AcidDirectory:
    """One base, delta or delete delta. For a base, both write ids are the same.

    `name` is the spelling on disk. The default is Hive's own spelling. Directories with different spellings differ.
    """

    kind: DirectoryKind
    min_write_id: int
    max_write_id: int
    statement_id: int | None = None
    visibility_txn: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self._canonical_name())

    def _canonical_name(self) -> str:
        ids = (self.min_write_id,) if self.is_base else (self.min_write_id, self.max_write_id)
        parts = [self.kind.value, *(f"{write_id:07d}" for write_id in ids)]
        if self.statement_id is not None:
            parts.append(f"{self.statement_id:04d}")
        if self.visibility_txn is not None:
            parts.append(f"v{self.visibility_txn:07d}")
        return "_".join(parts)

    def __str__(self) -> str:
        return self.name

    @property
    def is_base(self) -> bool:
        """Whether this is a base."""
        return self.kind is DirectoryKind.BASE

    @property
    def range(self) -> tuple[int, int, int | None]:
        """The lowest and highest write id, and the statement."""
        return self.min_write_id, self.max_write_id, self.statement_id

    @classmethod
    def base(cls, write_id: int, *, visibility_txn: int | None = None) -> "AcidDirectory":
        """Return the base of a write id."""
        return cls(DirectoryKind.BASE, write_id, write_id, visibility_txn=visibility_txn)

    @classmethod
    def delta(
        cls, low: int, high: int, statement_id: int | None = None, *, visibility_txn: int | None = None
    ) -> "AcidDirectory":
        """Return the delta with the insert events of a range of write ids (of one statement, if given)."""
        return cls(DirectoryKind.DELTA, low, high, statement_id, visibility_txn)

    @classmethod
    def delete_delta(
        cls, low: int, high: int, statement_id: int | None = None, *, visibility_txn: int | None = None
    ) -> "AcidDirectory":
        """Return the delta with the delete events of a range of write ids (of one statement, if given)."""
        return cls(DirectoryKind.DELETE_DELTA, low, high, statement_id, visibility_txn)


@lru_cache(maxsize=_REMEMBERED)
def parse_directory(name: str) -> AcidDirectory | None:
    """Parse a directory's name. Return None if it is not in the grammar or its numbers are invalid."""
    if match := _BASE.fullmatch(name):
        kind, low, high, statement = DirectoryKind.BASE, int(match["id"]), int(match["id"]), None
    elif match := _DELTA.fullmatch(name):
        kind, low, high = DirectoryKind(match["kind"]), int(match["min"]), int(match["max"])
        statement = _optional(match["statement"])
    else:
        return None
    txn = _optional(match["txn"])
    if not (INT64_MIN <= low <= high <= INT64_MAX and (txn or 0) <= INT64_MAX and (statement or 0) <= _INT32_MAX):
        return None
    return AcidDirectory(kind, low, high, statement, txn, name)


GUARD_BASE = AcidDirectory.base(INT64_MIN)
"""An empty base below every write id, valid for every snapshot.

It is published before a table's first compacted base without `_v` suffix. Older snapshots start from it (hazard H24).
"""


def looks_like_directory(name: str) -> bool:
    """Whether a name starts like an ACID directory. Hive fails on such a name if it is not in the grammar."""
    return name.startswith(tuple(f"{kind}_" for kind in DirectoryKind))


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file with the rows or delete events of one bucket."""

    bucket: int
    name: str


@lru_cache(maxsize=_REMEMBERED)
def parse_bucket_file(name: str) -> DataFile | None:
    """Parse `bucket_00000`, or `bucket_00000_0` with the task attempt that Hive 4 writes; None for any other name."""
    match = _BUCKET.fullmatch(name)
    return DataFile(int(match["bucket"]), name) if match else None


def bucket_file_name(bucket: int) -> str:
    """Return the name of a bucket's file in a compacted directory."""
    return f"bucket_{bucket:05d}"


@lru_cache(maxsize=_REMEMBERED)
def parse_original_file(name: str) -> DataFile | None:
    """Parse `000000_0` or `000000_0_copy_1`, from before the table became ACID; None for any other name."""
    match = _ORIGINAL.fullmatch(name)
    return DataFile(int(match["bucket"]), name) if match else None


def parse_original_path(path: str) -> DataFile | None:
    """Parse the path of an original file, with `name` as the whole path; None for any other path.

    The file may lie in sub-directories that a UNION ALL wrote below the table's or partition's directory.
    """
    *directories, name = path.split("/")
    parsed = parse_original_file(name)
    if parsed is None or not all(is_union_directory(directory) for directory in directories):
        return None
    return DataFile(parsed.bucket, path)


def is_union_directory(name: str) -> bool:
    """Whether it is a directory of original files that Hive wrote for one branch of a UNION ALL.

    NB: these are the only non-ACID directories known to belong to the table. Only these are ever compacted and become
    obsolete (HIVE-25915).
    """
    return _UNION_DIRECTORY.fullmatch(name) is not None


def may_become_obsolete(name: str) -> bool:
    """Whether a compaction can make a direct child of that name obsolete. A name with `/` never matches."""
    return parse_directory(name) is not None or parse_original_file(name) is not None or is_union_directory(name)


def is_flush_length(name: str) -> bool:
    """Whether it is the side file of a bucket that a streaming writer has not closed (`bucket_N_flush_length`)."""
    return _FLUSH_LENGTH.fullmatch(name) is not None


def is_hidden(path: str) -> bool:
    """Whether readers skip that path because of any name on it (Hive's `hiddenFileFilter`)."""
    return any(name.startswith(("_", ".")) for name in path.split("/"))


def encode_bucket_property(*, bucket: int, statement_id: int = 0) -> int:
    """Return the `bucket` column of ROW__ID in BucketCodec V1: version 1, 12 bits of bucket, 12 bits of statement.

    Raises ValueError if a number does not fit.
    """
    if not (0 <= bucket <= _FIELD_MASK and 0 <= statement_id <= _FIELD_MASK):
        raise ValueError(f"bucket {bucket} or statement {statement_id} is not in 0..{_FIELD_MASK}")
    return 1 << _CODEC_SHIFT | bucket << _BUCKET_SHIFT | statement_id


def bucket_of_property(prop: int) -> int:
    """Return the bucket in the `bucket` column of ROW__ID (BucketCodec V0 and V1).

    Raises ValueError for a codec version that Hive does not define.
    """
    version = prop >> _CODEC_SHIFT
    if version == 0:
        return prop
    if version != 1:
        raise ValueError(f"bucket property {prop} has codec version {version}; 0 and 1 are known")
    return prop >> _BUCKET_SHIFT & _FIELD_MASK


def _optional(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
