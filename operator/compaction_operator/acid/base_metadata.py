"""The `_metadata_acid` file of a base (Hive 4's AcidMetaDataFile, Hive 3's MetaDataFile)."""

import json
from enum import StrEnum
from typing import Any

VERSION = "0"


class DataFormat(StrEnum):
    """The operation that wrote a base. Hive 3.1 knows only COMPACTED, and its readers fail on the others."""

    COMPACTED = "compacted"
    """Written by a compaction of Hive 3.1 or of this project."""

    TRUNCATED = "truncated"
    """Written by TRUNCATE of Hive 4: an empty base, equivalent to an INSERT OVERWRITE without rows."""

    DROPPED = "dropped"
    """Written by DROP PARTITION of Hive 4, and by RENAME PARTITION at the old location. Equivalent to TRUNCATED."""


def parse_metadata(content: bytes | None) -> DataFormat:
    """Return the data format that the file declares. Raises ValueError for content that Hive does not write.

    NB: the spelling must be exactly Hive's. Hive 4 would also accept another case, but Hive 3.1 would not.
    """
    if content is None:
        raise ValueError("was not read")
    found = _json_object(content)
    version, data_format = found.get("thisFileVersion"), found.get("dataFormat")
    if version != VERSION:
        raise ValueError(f"thisFileVersion {version!r} is unknown")
    if data_format not in [*DataFormat]:
        raise ValueError(f"dataFormat {data_format!r} is unknown")
    return DataFormat(found["dataFormat"])


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(f"is not JSON: {content[:80]!r}") from None
    return found if isinstance(found, dict) else {}
