"""The user metadata that Hive requires in ACID bucket files (OrcRecordUpdater: KeyIndexBuilder, AcidStats)."""

import re
from collections.abc import Iterable

from compaction_operator.orc.file import Tail
from compaction_operator.orc.merge.events import RowId

KEY_INDEX = "hive.acid.key.index"
"""User metadata with the last key of each stripe, as `writeId,bucket,rowId;` (OrcRecordUpdater.KeyIndexBuilder)."""

_ENTRY = re.compile(r"(-?[0-9]{1,19}),(-?[0-9]{1,10}),(-?[0-9]{1,19});")


def acid_metadata(lasts: Iterable[RowId], *, inserts: int, deletes: int) -> dict[str, bytes]:
    """Return the metadata of a file from the last key of each stripe and the numbers of its events."""
    return {
        KEY_INDEX: "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in lasts).encode(),
        "hive.acid.stats": f"{inserts},0,{deletes}".encode(),
        "hive.acid.version": b"2",
    }


def key_index(tail: Tail) -> list[RowId] | None:
    """Return the last ROW__ID of each stripe, or None if the file has no index that matches its stripes.

    NB: Hive before HIVE-18817 could write an index with too few entries, which must not be trusted.
    """
    text = tail.user_metadata.get(KEY_INDEX, b"").decode("ascii", errors="replace")
    entries = _ENTRY.findall(text)
    if _ENTRY.sub("", text) or len(entries) != len(tail.footer.stripes):
        return None
    index = [(int(write_id), int(bucket), int(row_id)) for write_id, bucket, row_id in entries]
    return index if index == sorted(set(index)) else None
