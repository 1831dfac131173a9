"""Directories that are no more than the beginnings of keys."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from sandbox.s3.proxy import Answer, Call, Fault, Forward, MisbehavingProxy
from sandbox.s3.server import S3Server

from compaction_operator.api.stores import S3, StoreSettings
from compaction_operator.storage import Entry, EntryKind, NotFoundError, StorageError, Stores, join
from compaction_operator.storage.s3 import S3Storage
from tests.integration.storage.s3.conftest import storage_at

MANY = 1005


def key_of(uri: str) -> str:
    return uri.partition("//")[2].partition("/")[2]


def fill(storage: S3Storage, directory: str, number: int = MANY) -> None:
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda index: storage.write(f"{directory}/{index:05}", b"12"), range(number)))


def test_a_deletion_never_reaches_a_longer_name(storage: S3Storage, place: str):
    """H21: keys are deleted by the name and '/', not by what they begin with."""
    for name in ("base_1", "base_10", "base_1_v7", "base_1.x"):
        storage.write(join(place, name, "bucket_00000"), b"rows")
    assert storage.delete_tree(join(place, "base_1")) == 4
    assert [entry.name for entry in storage.list(place)] == ["base_1.x", "base_10", "base_1_v7"]
    assert not storage.exists(join(place, "base_1"))
    assert storage.exists(join(place, "base_10"))


def test_large_trees_are_listed_and_deleted_page_by_page(storage: S3Storage, place: str):
    """More keys than S3 lists or deletes by one call, and children before and behind them."""
    fill(storage, join(place, "delta_1_1"))
    storage.write(join(place, "base_1", "bucket_00000"), b"rows")
    storage.write(join(place, "delta_1_10"), b"12345")
    storage.write(join(place, "zzz"), b"1")
    assert storage.list(place) == [
        Entry("base_1", EntryKind.DIRECTORY, 0),
        Entry("delta_1_1", EntryKind.DIRECTORY, 0),
        Entry("delta_1_10", EntryKind.FILE, 5),
        Entry("zzz", EntryKind.FILE, 1),
    ]
    (base, delta) = storage.list_partition(place).directories
    assert (len(base.files), len(delta.files)) == (1, MANY)
    assert storage.delete_tree(join(place, "delta_1_1")) == 2 * MANY
    assert [entry.name for entry in storage.list(place)] == ["base_1", "delta_1_10", "zzz"]


def test_a_marker_is_an_empty_directory(storage: S3Storage, place: str):
    marker = f"{key_of(place)}/base_1/"
    storage.bucket.create(marker, b"")
    assert storage.list(place) == [Entry("base_1", EntryKind.DIRECTORY, 0)]
    assert storage.list(join(place, "base_1")) == []
    assert storage.exists(join(place, "base_1"))
    storage.remove_if_empty(join(place, "base_1"))
    assert not storage.exists(join(place, "base_1"))
    storage.remove_if_empty(join(place, "base_1"))


def test_a_marker_with_something_below_it_stays(storage: S3Storage, place: str):
    storage.bucket.create(f"{key_of(place)}/base_1/", b"")
    storage.write(join(place, "base_1", "bucket_00000"), b"rows")
    storage.remove_if_empty(join(place, "base_1"))
    assert storage.bucket.first(f"{key_of(place)}/base_1/") is not None
    with pytest.raises(StorageError, match="not a directory"):
        storage.remove_if_empty(join(place, "base_1", "bucket_00000"))
    assert storage.delete_tree(join(place, "base_1")) == 4
    assert storage.list(place) == []


def test_a_file_is_not_a_directory(storage: S3Storage, place: str):
    storage.write(join(place, "file"), b"1")
    for operation in (storage.list, storage.list_partition):
        with pytest.raises(StorageError, match="file is not a directory") as raised:
            operation(join(place, "file"))
        assert not isinstance(raised.value, NotFoundError)


def test_what_is_gone_is_not_synced(storage: S3Storage, place: str):
    storage.sync(place)
    with pytest.raises(NotFoundError, match="missing"):
        storage.sync(join(place, "missing"))


def test_a_bucket_that_is_missing_is_not_an_empty_table(server: S3Server, bucket: str):
    """NB: a wrong name in the configuration must not read as "the table was dropped"."""
    nowhere = storage_at(server, "no-such-bucket")
    path = "s3a://no-such-bucket/t"
    for call in (nowhere.list, nowhere.list_partition, nowhere.read, nowhere.exists, nowhere.reader, nowhere.sync):
        with pytest.raises(StorageError, match="no-such-bucket") as raised:
            call(path)
        assert not isinstance(raised.value, NotFoundError)


def test_another_bucket_is_refused(storage: S3Storage):
    with pytest.raises(StorageError, match="not in the bucket"):
        storage.list("s3a://elsewhere/t")


def test_each_key_that_was_not_deleted_is_named(behind_proxy: S3Storage, proxy: MisbehavingProxy, place: str):
    """By S3's own list of failures, which comes with status 200."""
    for name in ("bucket_00000", "bucket_00001"):
        behind_proxy.write(join(place, "base_1", name), b"rows")
    proxy.behave(delete=_deleting_only("bucket_00000"))
    with pytest.raises(StorageError, match=r"not deleted .*base_1/bucket_00001 \(Access Denied") as raised:
        behind_proxy.delete_tree(join(place, "base_1"))
    assert "bucket_00000" not in str(raised.value)
    proxy.behave()
    assert behind_proxy.delete_tree(join(place, "base_1")) == 8


def test_a_key_that_the_answer_leaves_out_is_named(behind_proxy: S3Storage, proxy: MisbehavingProxy, place: str):
    behind_proxy.write(join(place, "base_1", "bucket_00000"), b"rows")
    proxy.behave(delete=_deleting_only("nothing", errors=False))
    with pytest.raises(StorageError, match=r"bucket_00000 \(no answer\)"):
        behind_proxy.delete_tree(join(place, "base_1"))


def test_a_warehouse_reaches_each_bucket_by_its_own_settings(server: S3Server, place: str, storage: S3Storage):
    """The settings of the others lead nowhere."""
    elsewhere = server.settings(endpoint="http://127.0.0.1:1")
    own = {storage.bucket.name: server.settings()}
    stores = Stores(StoreSettings(s3=S3(**elsewhere.model_dump(), buckets=own)))
    for uri in (place, place.replace("s3a:", "s3:"), place.replace("s3a:", "s3n:")):
        stores.open(uri).write(join(uri, f"file-{uri.partition(':')[0]}"), b"1")
    assert [entry.name for entry in stores.open(place).list(place)] == ["file-s3", "file-s3a", "file-s3n"]
    with stores.create_file(join(place, "new")) as file:
        file.write(b"content")
    with stores.look_up(join(place, "new")).open() as file:
        assert file.read() == b"content"


def _deleting_only(name: str, *, errors: bool = True) -> Fault:
    """Say of every key but those that end in `name` that it was not deleted, or nothing."""

    def answer(call: Call, _forward: Forward) -> Answer:
        keys = re.findall(r"<Key>([^<]*)</Key>", call.body.decode())
        failed = [key for key in keys if not key.endswith(name)] if errors else []
        done = [key for key in keys if key.endswith(name)]
        lines = [f"<Deleted><Key>{key}</Key></Deleted>" for key in done]
        lines += [
            f"<Error><Key>{key}</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            for key in failed
        ]
        body = f'<?xml version="1.0"?><DeleteResult>{"".join(lines)}</DeleteResult>'
        return Answer(200, {"Content-Type": "application/xml"}, body.encode())

    return answer
