"""Whom what is published on HDFS belongs to, and what permissions, snapshots and quotas do."""

from collections.abc import Callable
from typing import Any

import pytest
from hdfs_native import AclEntry, Client, WriteOptions

from compaction_operator.storage import NotFoundError, StorageError, join
from compaction_operator.storage.hdfs import HdfsStorage
from tests.integration.storage.hdfs_users import Hadoop

DEFAULT_ACL = [
    AclEntry("user", "default", "rwx"),
    AclEntry("user", "default", "r-x", "impala"),
    AclEntry("group", "default", "r-x"),
    AclEntry("mask", "default", "rwx"),
    AclEntry("other", "default", "---"),
]

As = Callable[[str], HdfsStorage]


@pytest.fixture
def hadoop(plain: Hadoop) -> Hadoop:
    return plain


@pytest.fixture
def as_user(hadoop: Hadoop, monkeypatch: pytest.MonkeyPatch) -> As:
    """Connect as a user. NB: the library asks the environment when it connects."""

    def connected(user: str) -> HdfsStorage:
        monkeypatch.setenv("HADOOP_USER_NAME", user)
        storage = hadoop.connect(timeout=5)
        storage.exists(f"{hadoop.server.uri}/")
        monkeypatch.delenv("HADOOP_USER_NAME")
        return storage

    return connected


@pytest.fixture
def partition(hadoop: Hadoop, place: str) -> str:
    """A partition of hive:analysts that its group may write."""
    path = join(place, "prt=1")
    hadoop.storage.make_directory(path)
    _own(hadoop.client, path, "hive", "analysts", 0o770)
    return path


def _own(client: Client, path: str, owner: str, group: str, mode: int) -> None:
    name = _name(path)
    client.set_permission(name, mode)
    client.set_owner(name, owner, group)


def _name(path: str) -> str:
    return "/" + path.split("/", 3)[3]


def _compact(storage: HdfsStorage, partition: str) -> str:
    """Stage a base and publish it, as the driver does; return its URI."""
    staging, base = join(partition, "_staging"), join(partition, "_staging", "base_1")
    storage.make_directory(staging)
    storage.make_directory(base)
    storage.write(join(base, "_orc_acid_version"), b"2")
    writer = storage.writer(join(staging, "task"))
    writer.write(b"rows")
    writer.close()
    storage.publish(join(staging, "task"), join(base, "bucket_00000"))
    storage.publish(base, join(partition, "base_1"))
    return join(partition, "base_1")


def _rights(client: Client, path: str) -> dict[str, Any]:
    status, acl = client.get_file_info(_name(path)), client.get_acl_status(_name(path))
    entries = sorted((e.scope, e.type, e.name or "", e.permissions) for e in acl.entries)
    return {"owner": status.owner, "group": status.group, "mode": oct(status.permission), "acl": entries}


@pytest.mark.parametrize("acl", [[], DEFAULT_ACL], ids=["plain", "default-acl"])
@pytest.mark.parametrize("mode", [0o770, 0o775, 0o755, 0o700])
def test_outputs_have_the_rights_of_what_is_created_in_the_partition(
    hadoop: Hadoop, partition: str, as_user: As, acl: list[AclEntry], mode: int
) -> None:
    """HDFS keeps rights in a rename, so they must be right in staging. Readers by group or ACL must not lose access."""
    hadoop.client.set_permission(_name(partition), mode)
    if acl:
        hadoop.client.set_acl(_name(partition), acl)
    base = _compact(as_user("hive"), partition)
    hadoop.client.mkdirs(_name(join(partition, "direct")), mode)
    hadoop.client.create(_name(join(partition, "direct", "file")), WriteOptions(permission=mode & 0o666)).close()
    for made, path in (("direct", base), ("direct/file", join(base, "bucket_00000"))):
        expected = _rights(hadoop.client, f"{partition}/{made}") | {"owner": "hive"}
        assert _rights(hadoop.client, path) == expected
        assert expected["group"] == "analysts"
        assert any("impala" in entry for entry in expected["acl"]) == bool(acl)
        assert acl or expected["mode"] == oct(mode if path == base else mode & 0o666)
    assert _rights(hadoop.client, join(base, "_orc_acid_version")) == _rights(hadoop.client, join(base, "bucket_00000"))


def test_what_a_superuser_publishes_belongs_to_the_partitions_owner(hadoop: Hadoop, partition: str) -> None:
    base = _compact(hadoop.connect(), partition)
    for path in (base, join(base, "bucket_00000"), join(base, "_orc_acid_version")):
        assert _rights(hadoop.client, path)["owner"] == "hive"


def test_what_another_user_publishes_stays_its_own(hadoop: Hadoop, partition: str, as_user: As) -> None:
    hadoop.client.set_permission(_name(partition), 0o777)
    base = _compact(as_user("compactor"), partition)
    for path in (base, join(base, "bucket_00000")):
        rights = _rights(hadoop.client, path)
        assert (rights["owner"], rights["group"]) == ("compactor", "analysts")


def test_a_directory_that_cannot_be_read_fails_the_listing_with_its_path(
    hadoop: Hadoop, partition: str, as_user: As
) -> None:
    """Left out, its rows would be missing from what is compacted."""
    hidden = join(partition, "delta_1_1")
    hadoop.storage.make_directory(hidden)
    _own(hadoop.client, hidden, "other", "other", 0o700)
    hive = as_user("hive")
    with pytest.raises(
        StorageError, match=rf"cannot list {hidden}: AccessControlException: Permission denied"
    ) as raised:
        hive.list_partition(partition)
    assert not isinstance(raised.value, NotFoundError)


def test_what_may_not_be_looked_at_is_not_missing(hadoop: Hadoop, partition: str, as_user: As) -> None:
    with pytest.raises(StorageError, match="Permission denied: user=stranger, access=EXECUTE"):
        as_user("stranger").exists(join(partition, "base_1"))


def test_snapshots_are_not_listed_and_keep_what_is_deleted(hadoop: Hadoop, partition: str) -> None:
    base = _compact(hadoop.storage, partition)
    hadoop.server.admin("-allowSnapshot", _name(partition))
    hadoop.server.shell("-createSnapshot", _name(partition), "before")
    try:
        assert ".snapshot" not in {entry.name for entry in hadoop.storage.list(partition)}
        assert hadoop.storage.delete_tree(base) == 5
        kept = join(partition, ".snapshot", "before", "base_1", "bucket_00000")
        assert hadoop.storage.read(kept) == b"rows"
        with pytest.raises(StorageError, match="SnapshotException"):
            hadoop.storage.delete_tree(partition)
    finally:
        hadoop.server.shell("-deleteSnapshot", _name(partition), "before")


def test_a_quota_that_is_used_up_is_named(hadoop: Hadoop, place: str) -> None:
    hadoop.server.admin("-setQuota", "1", _name(place))
    for create in (hadoop.storage.make_directory, lambda path: hadoop.storage.write(path, b"")):
        with pytest.raises(StorageError, match=r"NSQuotaExceededException: The NameSpace quota .* is exceeded"):
            create(join(place, "new"))
