"""The exact directories of the fixture tables at each stage, as Hive and the openLooKeng document have them."""

import re
from collections.abc import Iterable, Mapping

INSERTS = frozenset({"delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delta_0000003_0000003_0000"})
"""table_txn_001 after its three inserts."""

UPDATE = frozenset({"delta_0000004_0000004_0000", "delete_delta_0000004_0000004_0000"})
"""What the fourth write, an update, adds."""

AFTER_INSERTS_MINOR = frozenset({"delta_0000001_0000003"})
AFTER_INSERTS_MAJOR = frozenset({"base_0000003"})
AFTER_UPDATE_MINOR = frozenset({"delta_0000001_0000004", "delete_delta_0000001_0000004"})

GUARD = frozenset({"base_-9223372036854775808"})
"""The empty base that older snapshots read from when a table gets its first one on Hive 3.1."""

TRY_IT: Mapping[str, frozenset[str]] = {
    "prt=p1": frozenset(
        {
            "delta_0000001_0000001_0000",
            "delta_0000003_0000003_0000",
            "delete_delta_0000003_0000003_0000",
            "delete_delta_0000005_0000005_0000",
        }
    ),
    "prt=p2": frozenset(
        {
            "delta_0000002_0000002_0000",
            "delta_0000003_0000003_0000",
            "delete_delta_0000003_0000003_0000",
            "delta_0000004_0000004_0000",
            "delete_delta_0000004_0000004_0000",
        }
    ),
    "prt=p3": frozenset(
        {
            "delta_0000002_0000002_0000",
            "delta_0000003_0000003_0000",
            "delete_delta_0000003_0000003_0000",
            "delta_0000006_0000006_0000",
        }
    ),
}
"""try_it after its six transactions."""

TRY_IT_OF_HIVE_4: Mapping[str, frozenset[str]] = {
    "prt=p1": TRY_IT["prt=p1"] - {"delta_0000003_0000003_0000"} | {"delta_0000003_0000003_0001"},
    "prt=p2": TRY_IT["prt=p2"] - {"delta_0000003_0000003_0000", "delta_0000004_0000004_0000"}
    | {"delta_0000003_0000003_0001", "delta_0000004_0000004_0001"},
    "prt=p3": TRY_IT["prt=p3"] - {"delta_0000003_0000003_0000"} | {"delta_0000003_0000003_0001"},
}
"""The same on Hive 4: there the inserts of an update are a statement of their own."""

TRY_IT_AFTER_MAJOR: Mapping[str, frozenset[str]] = {
    "prt=p1": frozenset({"base_0000005"}),
    "prt=p2": frozenset({"base_0000004"}),
    "prt=p3": frozenset({"base_0000006"}),
}
"""All rows of p1 are deleted by then: its base is there, and empty."""

TRY_IT_AFTER_MINOR: Mapping[str, frozenset[str]] = {
    "prt=p1": frozenset({"delta_0000001_0000005", "delete_delta_0000001_0000005"}),
    "prt=p2": frozenset({"delta_0000002_0000004", "delete_delta_0000002_0000004"}),
    "prt=p3": frozenset({"delta_0000002_0000006", "delete_delta_0000002_0000006"}),
}


def plain(names: Iterable[str]) -> frozenset[str]:
    """Return names without the transaction that Hive 4 appends to what a compaction makes (`_v0000017`)."""
    return frozenset(re.sub("_v[0-9]+$", "", name) for name in names)
