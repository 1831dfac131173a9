"""The user metadata that Hive requires in ACID bucket files (OrcRecordUpdater: KeyIndexBuilder, AcidStats)."""

from collections.abc import Iterable

from compaction_operator.orc.merge.events import RowId
from compaction_operator.orc.merge.sketch import KEY_INDEX


def acid_metadata(lasts: Iterable[RowId], *, inserts: int, deletes: int) -> dict[str, bytes]:
    """Return the metadata of a file from the last key of each stripe and the numbers of its events."""
    return {
        KEY_INDEX: "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in lasts).encode(),
        "hive.acid.stats": f"{inserts},0,{deletes}".encode(),
        "hive.acid.version": b"2",
    }
