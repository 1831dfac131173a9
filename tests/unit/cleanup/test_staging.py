"""The names of staging folders differ from those of everything else beside the directories of a table."""

import pytest

from compaction_operator.acid.names import is_hidden
from compaction_operator.cleanup.staging import TRASH_PREFIX, parse_staging, staging_name

UID = "0a1b2c3d-0000-4000-8000-000000000000"
POD = "9f8e7d6c-0000-4000-8000-000000000000"


def test_a_name_says_whose_it_is() -> None:
    name = staging_name(uid=UID, attempt=12, pod_uid=POD)
    assert name == f"_compaction_{UID}-12-9f8e7d6c"
    folder = parse_staging(name)
    assert folder is not None
    assert (folder.uid, folder.attempt, folder.pod_uid, folder.fenced) == (UID, 12, "9f8e7d6c", False)
    assert folder.fenced_name == f"{name}.fenced"


def test_a_fenced_name_stays_what_it_is() -> None:
    folder = parse_staging("_compaction_0a1b2c3d-1-9f8e7d6c.fenced")
    assert folder is not None
    assert folder.fenced
    assert folder.fenced_name == folder.name


def test_readers_skip_staging_and_trash() -> None:
    assert is_hidden(staging_name(uid=UID, attempt=1, pod_uid=POD))
    assert is_hidden(f"{TRASH_PREFIX}base_0000001")


@pytest.mark.parametrize(
    "name",
    [
        f"{TRASH_PREFIX}delta_0000001_0000001",
        f"{TRASH_PREFIX}000000_0",
        "_compaction_",
        "_compaction_a-1",
        "_compaction_a-1-b.fenced.fenced",
        "_compaction_a-1-b/x",
        "_compaction_a-1-b\n",
        "x_compaction_a-1-b",
        "_compaction_-a-1-b",
        "_compaction_a-1-012345678",
        "delta_0000001_0000001",
        ".hive-staging_hive_1",
    ],
)
def test_other_names_are_no_staging_folders(name: str) -> None:
    """The fence removes what is a staging folder by name: nothing else may pass for one."""
    assert parse_staging(name) is None


@pytest.mark.parametrize("uid", ["", "../..", "a/b", "-"])
def test_uids_that_make_no_name_are_refused(uid: str) -> None:
    with pytest.raises(ValueError, match="staging name"):
        staging_name(uid=uid, attempt=1, pod_uid=POD)
