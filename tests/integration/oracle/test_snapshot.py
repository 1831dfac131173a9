"""Our snapshot of a directory is the one of AcidUtils.getAcidState, for random directories and every reader."""

from pathlib import Path

import pytest

from compaction_operator.acid.names import parse_directory
from compaction_operator.acid.snapshot import NotEnoughHistory, Snapshot, compacted_bases, snapshot
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from tests.integration.oracle.hive import HiveOracle, OracleError, State
from tests.integration.oracle.random_directories import RandomDirectory, random_directories

DIRECTORIES = 200


@pytest.mark.parametrize("version", [3, 4])
def test_the_snapshot_of_random_directories_is_hives(
    version: int, hive3: HiveOracle, hive4: HiveOracle, tmp_path: Path
) -> None:
    hive = hive3 if version == 3 else hive4
    compared = 0
    for number, found in enumerate(random_directories(version, DIRECTORIES, seed=version)):
        if differs_by_intent(found, version) or (hive.release == "4.2.0" and compacted_twice(found)):
            continue
        found.make(tmp_path / str(number))
        theirs, ours = hives_state(hive, tmp_path / str(number), found), our_state(found)
        assert_same(theirs, ours, found)
        compared += 1
    assert compared > DIRECTORIES / 2


def differs_by_intent(found: RandomDirectory, version: int) -> bool:
    """Whether the versions of Hive answer by the order of the file system, or refuse or read what we do not.

    3.1.3 reads nothing at all while there is the base of an uncommitted INSERT OVERWRITE; 4.0.1 reads on with a base
    named after the lowest open write id, or one above the high watermark, and misses no history where the oldest base
    is uncommitted.
    """
    ids = found.write_ids
    bases = [one for directory in found.listing.directories if (one := parse_directory(directory.name)) and one.is_base]
    write_ids = sorted(base.max_write_id for base in bases)
    compacted = compacted_bases(found.listing, highest=ids.high_watermark)
    uncommitted = [
        b.max_write_id for b in bases if b.name not in compacted and b.max_write_id in ids.open | ids.aborted
    ]
    if len(write_ids) != len({*write_ids}):
        return True
    if version == 3:
        return bool(uncommitted)
    ahead = any(number == ids.min_open or number > ids.high_watermark for number in write_ids)
    return ahead or (len(bases) > 1 and write_ids[0] in uncommitted)


def compacted_twice(found: RandomDirectory) -> bool:
    """Whether two compactions left directories of one range: 4.2 lists the newer first, and may read it alone."""
    parsed = [parse_directory(directory.name) for directory in found.listing.directories]
    compacted = {(one.range, one.visibility_txn) for one in parsed if one and not one.is_base}
    return len(compacted) != len({range_ for range_, _ in compacted})


@pytest.mark.parametrize("oracle", ["hive4", "hive42"], indirect=True)
def test_of_two_deltas_of_one_range_hive_4_2_reads_the_newer_and_older_ones_both(
    oracle: HiveOracle, tmp_path: Path
) -> None:
    """HIVE-29210: so a plan refuses them (test_plan). None of the two is obsolete before a base covers both."""
    names = [f"delta_0000001_0000003_v000000{txn}" for txn in (5, 7)]
    write_ids = ValidWriteIdList.parse("d.t:3:9223372036854775807::")
    found = RandomDirectory(names, write_ids, ValidTxnList.parse("9:9223372036854775807::"))
    found.make(tmp_path)
    theirs, ours = hives_state(oracle, tmp_path, found), our_state(found)
    assert theirs and ours
    read = names[1:] if oracle.release == "4.2.0" else names
    assert (theirs.current, theirs.obsolete) == (read, [name for name in names if name not in read])
    assert ([delta.name for delta in ours.deltas], ours.obsolete) == (names, ())


def hives_state(hive: HiveOracle, path: Path, found: RandomDirectory) -> State | None:
    """Return Hive's answer, None where it says that there is not enough history."""
    try:
        return hive.state(path, write_ids=str(found.write_ids), txns=str(found.txns) if found.txns else None)
    except OracleError as error:
        assert "Not enough history" in str(error), error.trace
        return None


def our_state(found: RandomDirectory) -> Snapshot | None:
    """Return our answer, None where it says that there is not enough history."""
    try:
        return snapshot(found.listing, found.write_ids, valid_txns=found.txns)
    except NotEnoughHistory:
        return None


def assert_same(theirs: State | None, ours: Snapshot | None, found: RandomDirectory) -> None:
    """Both read the same, and the obsolete directories agree except for those that a writer may still write to."""
    if theirs is None or ours is None:
        assert (theirs, ours) == (None, None), found
        return
    assert (ours.base and ours.base.name) == theirs.base, found
    assert [delta.name for delta in ours.deltas] == theirs.current, found
    assert [file.name for file in ours.originals] == theirs.originals, found
    settled = {entry.partition("/")[0] for entry in found.entries if _is_settled(entry.partition("/")[0], found)}
    obsolete = {entry.name for entry in ours.obsolete if entry.reason != "aborted"}
    assert obsolete == {*theirs.obsolete} & settled, found


def _is_settled(name: str, found: RandomDirectory) -> bool:
    directory = parse_directory(name)
    return directory is None or directory.max_write_id <= found.write_ids.watermark
