"""The user metadata by which Hive knows an ACID bucket file (Hive's OrcRecordUpdater: KeyIndexBuilder, AcidStats)."""

from collections.abc import Iterable

from compaction_operator.orc.merge.events import RowId
from compaction_operator.orc.merge.sketch import KEY_INDEX


def acid_metadata(lasts: Iterable[RowId], *, inserts: int, deletes: int) -> dict[str, bytes]:
    """Return the metadata of a file by the last key of each of its stripes and the number of its events."""
    return {
        KEY_INDEX: "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in lasts).encode(),
        "hive.acid.stats": f"{inserts},0,{deletes}".encode(),
        "hive.acid.version": b"2",
    }
