"""What `_metadata_acid` says of the base in which it lies (Hive 4's AcidMetaDataFile, Hive 3's MetaDataFile)."""

import json
from enum import StrEnum
from typing import Any

VERSION = "0"


class DataFormat(StrEnum):
    """What wrote a base. Hive 3.1 knows only the first of them; its readers fail on the others."""

    COMPACTED = "compacted"
    """A compaction of Hive 3.1, or ours."""

    TRUNCATED = "truncated"
    """TRUNCATE of Hive 4: an empty base, which counts as an INSERT OVERWRITE of no rows does."""

    DROPPED = "dropped"
    """DROP PARTITION of Hive 4, and RENAME PARTITION at the old place: the same."""


def parse_metadata(content: bytes | None) -> DataFormat:
    """Return what the file says. Raises ValueError for whatever Hive does not write.

    NB: the spelling is Hive's own. Hive 4 would take another case, too; Hive 3.1 would not.
    """
    if content is None:
        raise ValueError("was not read")
    found = _json_object(content)
    version, data_format = found.get("thisFileVersion"), found.get("dataFormat")
    if version != VERSION:
        raise ValueError(f"thisFileVersion {version!r} is not known")
    if data_format not in [*DataFormat]:
        raise ValueError(f"dataFormat {data_format!r} is not known")
    return DataFormat(found["dataFormat"])


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(f"is not JSON: {content[:80]!r}") from None
    return found if isinstance(found, dict) else {}
