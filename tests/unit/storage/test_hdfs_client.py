"""HDFS that cannot be reached at all: errors that name the location and say nothing about what is there."""

from pathlib import Path

import pytest

from compaction_operator.api.stores import Hdfs
from compaction_operator.storage import NotFoundError, StorageError
from compaction_operator.storage.hdfs import connect


@pytest.mark.parametrize(
    ("scheme", "authority", "reason"),
    [
        ("hdfs", "unknown", "No NameNode hosts found"),
        ("hdfs", "", r"No fs\.defaultFS setting found"),
        ("viewfs", "cluster", "No viewfs fallback mount found"),
        ("hdfs", "127.0.0.1:1", "Connection refused"),
        ("hdfs", "nowhere.invalid:8020", "lookup"),
    ],
)
def test_a_namenode_that_cannot_be_reached_is_named(scheme: str, authority: str, reason: str) -> None:
    path = f"{scheme}://{authority}/table"
    with pytest.raises(StorageError, match=f"{path}.*{reason}") as raised:
        connect(scheme, authority, None, timeout=2).exists(path)
    assert not isinstance(raised.value, NotFoundError)


def test_a_folder_without_hadoops_configuration_is_named(tmp_path: Path) -> None:
    """hdfs-native would go on without it: without Kerberos, and without the name services."""
    settings = Hdfs(config_map="hadoop", mount_path=str(tmp_path))
    with pytest.raises(StorageError, match=rf"{tmp_path} has neither core-site.xml nor hdfs-site.xml"):
        connect("hdfs", "127.0.0.1:1", settings).exists("hdfs://127.0.0.1:1/table")
