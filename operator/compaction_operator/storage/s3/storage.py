"""Storage for `s3a:`, `s3:` and `s3n:` locations."""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from compaction_operator.acid.listing import Listing
from compaction_operator.api.stores import S3, S3Connection
from compaction_operator.permit import Permit, always
from compaction_operator.storage.base import (
    Abilities,
    Entries,
    Listed,
    NotFoundError,
    StorageError,
)
from compaction_operator.storage.s3 import tree
from compaction_operator.storage.s3.client import Pace
from compaction_operator.storage.s3.files import S3Reader, S3Writer
from compaction_operator.storage.s3.objects import Bucket, Object, batches
from compaction_operator.storage.s3.scan import objects_below
from compaction_operator.storage.s3.uploads import S3Uploads
from compaction_operator.storage.silence import list_side_by_side
from compaction_operator.storage.uri import Location


def connect(bucket: str, settings: S3 | None, pace: Pace | None = None, *, permit: Permit = always) -> "S3Storage":
    """Return the storage of a bucket. Without settings it is AWS's, and the environment says who asks.

    `permit` is asked before each request. Raises StorageError for settings that cannot be used.
    """
    connection = settings.bucket(bucket) if settings else S3Connection()
    return S3Storage(Bucket(bucket, connection, pace or Pace(), permit=permit))


class S3Storage:
    """Storage on one bucket. Thread-safe.

    A directory is what keys have in common, or a marker: an empty object whose key ends with "/". What other tools
    could see in another way is an error, because its meaning is not certain: an object and a directory of one name, and
    keys with empty names, "." or "..".
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._uploads = S3Uploads(bucket)

    @property
    def bucket(self) -> Bucket:
        """The objects, by key."""
        return self._bucket

    @property
    def abilities(self) -> Abilities:
        """Nothing is renamed. An object that was written is durable."""
        return Abilities(atomic_directory_rename=False, durable_on_close=True)

    @property
    def uploads(self) -> S3Uploads:
        """The uploads by which outputs are published."""
        return self._uploads

    def list(self, path: str) -> Entries:
        """Return a directory's direct children sorted by name."""
        prefix = self._prefix(path)
        objects = list(self._bucket.children(prefix))
        if prefix and not objects:
            self._raise_not_a_directory(path)
        return tree.children(path, prefix, objects)

    def list_partition(self, path: str) -> Listing:
        """Return what Hive would examine, by one listing of all keys below."""
        prefix = self._prefix(path)
        return self._listing(path, prefix, list(self._bucket.below(prefix)))

    def _listing(self, path: str, prefix: str, objects: Sequence[Object]) -> Listing:
        if prefix and not objects:
            self._raise_not_a_directory(path)
        return tree.listing(path, prefix, objects, self._bucket.get)

    def list_partitions(self, paths: Collection[str]) -> dict[str, Listed]:
        """List many directories, neighbours by one request; if that fails, one by one."""
        try:
            prefixes = {path: self._prefix(path) for path in paths}
            found = dict(objects_below(prefixes.values(), self._bucket.pages))
        except (StorageError, ValueError):
            return list_side_by_side(self.list_partition, paths)
        return list_side_by_side(lambda path: self._listing(path, prefixes[path], found[prefixes[path]]), paths)

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        key = self._file_key(path)
        try:
            return self._bucket.content(key)
        except NotFoundError:
            self._require_nothing_below(path, key)
            raise

    def write(self, path: str, data: bytes) -> None:
        """Create a file at once."""
        self._bucket.create(self._file_key(path), data)

    def make_directory(self, path: str) -> None:
        """Do nothing: directories need not be made, and a marker would outlive what was in it."""
        self._file_key(path)

    def rename(self, source: str, target: str) -> None:
        """Refuse."""
        raise StorageError(f"{source} cannot be renamed to {target}: S3 cannot rename")

    def publish(self, source: str, target: str) -> None:
        """Refuse: `uploads` publish here."""
        self.rename(source, target)

    def sync(self, path: str) -> None:
        """Do nothing but see that the path exists: objects are durable."""
        if not self.exists(path):
            raise NotFoundError(f"{path} does not exist")

    def delete_tree(self, path: str) -> int:
        """Delete the object of that name and all below it, in batches, and return the bytes that were there.

        NB: in a bucket with versions they stay as older versions, which its lifecycle rule removes.
        """
        key = self._file_key(path)
        itself = self._bucket.first(key)
        freed = self._delete([itself]) if itself and itself.key == key else 0
        return freed + sum(map(self._delete, batches(self._bucket.below(f"{key}/"))))

    def remove_if_empty(self, path: str) -> None:
        """Remove a marker that has nothing below it."""
        key = self._file_key(path)
        first = self._bucket.first(key)
        if first and first.key == key:
            raise StorageError(f"{path} is not a directory")
        below = islice(self._bucket.below(f"{key}/", limit=2), 2)
        if [(found.key, found.size) for found in below] == [(f"{key}/", 0)]:
            self._bucket.delete([f"{key}/"])

    def exists(self, path: str) -> bool:
        """Whether there is an object of that name, or any below it."""
        key = self._file_key(path)
        first = self._bucket.first(key)
        if first is None or first.key == key or first.key.startswith(f"{key}/"):
            return first is not None
        return self._bucket.first(f"{key}/") is not None

    def reader(self, path: str) -> S3Reader:
        """Open a file to read its ranges, all of the version of now."""
        key = self._file_key(path)
        try:
            return S3Reader(self._bucket, key)
        except NotFoundError:
            self._require_nothing_below(path, key)
            raise

    def writer(self, path: str) -> S3Writer:
        """Create a file. NB: whether the name is free is known when it is closed."""
        return S3Writer(self._bucket, self._file_key(path))

    def _delete(self, objects: Iterable[Object]) -> int:
        found = [*objects]
        self._bucket.delete([one.key for one in found])
        return sum(one.size for one in found)

    def _require_nothing_below(self, path: str, key: str) -> None:
        if self._bucket.first(f"{key}/"):
            raise StorageError(f"{path} is a directory")

    def _raise_not_a_directory(self, path: str) -> None:
        """Raise the error of a directory that has no key. NB: an object of its name is not a directory."""
        key = self._file_key(path)
        first = self._bucket.first(key)
        if first and first.key == key:
            raise StorageError(f"{path} is not a directory")
        raise NotFoundError(f"{path} does not exist")

    def _file_key(self, path: str) -> str:
        location = Location.parse(path)
        if not location.names:
            raise StorageError(f"{path}: this operation is not possible on the root directory")
        return self._bucket.key(location)

    def _prefix(self, path: str) -> str:
        key = self._bucket.key(Location.parse(path))
        return f"{key}/" if key else ""
