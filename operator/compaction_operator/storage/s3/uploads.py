"""Publication on S3: uploads that wait to be completed, and whose ids can be revoked."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from compaction_operator.api.cleanup import Upload
from compaction_operator.storage.base import AlreadyExistsError, NotFoundError, StorageError
from compaction_operator.storage.s3.multipart import GONE, Multipart, Part, Range, etag_of
from compaction_operator.storage.s3.objects import TAKEN, Bucket, S3Error
from compaction_operator.storage.s3.probe import probe
from compaction_operator.storage.uri import Location, join

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 8
_ABORTS = 3
"""How often an upload is aborted before it counts as one that cannot be: a part that arrives meanwhile revives it."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """The object that an upload makes."""

    size: int
    etag: str


class S3Uploads:
    """The uploads to a bucket. Thread-safe.

    NB: an upload's parts are listed before it is completed, as a journal has only its id. What they make is remembered,
    so that a completion whose answer was lost is known again.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._expected: dict[str, _Expected] = {}

    def begin(self, location: str, sources: Mapping[str, str]) -> tuple[Upload, ...]:
        """Begin an upload for each name and have S3 copy the object of its source into it."""
        begun: list[Multipart] = []

        def prepare(item: tuple[str, str]) -> Upload:
            name, source = item
            return self._prepare(name, self._key(join(location, *name.split("/"))), self._key(source), begun)

        try:
            return tuple(_each(prepare, sources.items()))
        except BaseException:
            for upload in begun:
                upload.give_up()
            raise

    def complete(self, location: str, uploads: Iterable[Upload]) -> None:
        """Complete each upload and check what is there."""
        _each(self._complete, self._named(location, uploads))

    def abort(self, location: str, uploads: Iterable[Upload]) -> None:
        """Abort each upload, and see that S3 knows it no more."""
        _each(_revoke, self._named(location, uploads))

    def abort_below(self, location: str, chosen: Callable[[str], bool]) -> int:
        """Abort the chosen uploads below a location."""
        prefix = f"{self._key(location)}/"
        found = [one for one in Multipart.begun_below(self._bucket, prefix) if chosen(one.key.removeprefix(prefix))]
        _each(_revoke, found)
        return len(found)

    def probe(self, location: str) -> str | None:
        """Do below a location what a publication needs."""
        return probe(self._bucket, location)

    def _prepare(self, name: str, key: str, source: str, begun: list[Multipart]) -> Upload:
        found = self._bucket.head(source)
        if found is None:
            raise NotFoundError(f"{self._bucket.uri(source)} does not exist")
        upload = Multipart.begin(self._bucket, key, {})
        begun.append(upload)
        if not found.size:
            upload.put(1, b"")
        else:
            for number, piece in enumerate(Range(self._bucket.name, found, 0, found.size).pieces(), 1):
                upload.copy(number, piece)
        return Upload(name=name, upload_id=upload.upload_id)

    def _complete(self, upload: Multipart) -> None:
        """Complete an upload. NB: no answer is believed before the object was looked at.

        An upload that is gone may have been completed by an earlier call. A name that is taken may be this upload's
        own; then the upload must be gone.
        """
        parts = self._parts(upload)
        if parts is None:
            self._check(upload, self._expected.get(upload.upload_id))
            return
        expected = self._expected[upload.upload_id] = _Expected(sum(part.size for part in parts), etag_of(parts))
        try:
            expected = _Expected(expected.size, upload.complete(parts))
        except S3Error as error:
            if error.status in TAKEN and self._parts(upload) is not None:
                self._refuse(upload, error)
            if error.status not in TAKEN and error.code not in GONE:
                raise
        self._check(upload, expected)

    def _refuse(self, upload: Multipart, error: S3Error) -> NoReturn:
        if self._bucket.head(upload.key) is None:
            raise error
        raise AlreadyExistsError(f"{self._bucket.uri(upload.key)} exists already") from error

    def _check(self, upload: Multipart, expected: _Expected | None) -> None:
        """Raise an error unless the object that the upload makes is there."""
        found = self._bucket.head(upload.key)
        if found is None:
            raise NotFoundError(f"{self._bucket.uri(upload.key)} does not exist: its upload was aborted")
        if expected is None or (found.size, found.etag) != (expected.size, expected.etag):
            raise AlreadyExistsError(f"{self._bucket.uri(upload.key)} exists already, and is not what was uploaded")

    def _parts(self, upload: Multipart) -> list[Part] | None:
        """Return an upload's parts, or None if it is gone."""
        try:
            return upload.parts()
        except S3Error as error:
            if error.code not in GONE:
                raise
            return None

    def _named(self, location: str, uploads: Iterable[Upload]) -> list[Multipart]:
        return [
            Multipart(self._bucket, self._key(join(location, *upload.name.split("/"))), upload.upload_id)
            for upload in uploads
        ]

    def _key(self, uri: str) -> str:
        return self._bucket.key(Location.parse(uri))


def _revoke(upload: Multipart) -> None:
    """Abort an upload until S3 does not know it. NB: a part that was on its way may arrive after the first time."""
    for _ in range(_ABORTS):
        upload.abort()
        try:
            upload.parts()
        except S3Error as error:
            if error.code in GONE:
                return
            raise
    raise StorageError(f"{upload.bucket.uri(upload.key)}: its upload is still there after it was aborted")


def _each(call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Make a call for each item, some at once; when all have ended, raise the first error."""
    with ThreadPoolExecutor(AT_ONCE, "s3-uploads") as threads:
        return [done.result() for done in [threads.submit(call, item) for item in items]]
