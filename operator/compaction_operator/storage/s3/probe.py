"""Probe: does a store do all that publication needs? It tries each step on hidden objects."""

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from compaction_operator.storage.base import AlreadyExistsError, StorageError
from compaction_operator.storage.s3.multipart import GONE, Multipart, Part, Range
from compaction_operator.storage.s3.objects import TAKEN, Bucket, S3Error
from compaction_operator.storage.uri import Location, join

_CONTENT = b"probe"

_log = logging.getLogger(__name__)


def probe(bucket: Bucket, uri: str) -> str | None:
    """Return why outputs can never be published safely below a location, or None.

    It writes hidden objects there and removes them. Raises StorageError if the store does not answer, or refuses.
    """
    place = bucket.key(Location.parse(join(uri, f"_compaction_probe_{uuid.uuid4().hex}")))
    source, target = f"{place}/source", f"{place}/target"
    try:
        reason = next(_reasons(bucket, source, target), None)
    except BaseException:
        with suppress(StorageError):
            bucket.delete([source, target])
        raise
    bucket.delete([source, target])
    return reason


def _reasons(bucket: Bucket, source: str, target: str) -> Iterator[str]:
    """Yield what the store does not do, each step on what those before it have shown."""
    bucket.create(source, _CONTENT)
    if [found.key for found in bucket.below(source)] != [source]:
        yield "a listing does not show an object that was just written"
    if _accepts(lambda: bucket.create(source, _CONTENT + _CONTENT)):
        yield "If-None-Match does not keep an object from being replaced by a PUT"
    with _upload(bucket, source, target) as (upload, parts):
        _look_for(upload)
        upload.complete(parts)
    if bucket.content(target) != _CONTENT:
        yield "an upload of a copied part makes another object than its source"
    with _upload(bucket, source, target) as (upload, parts):
        if _accepts(lambda: upload.complete(parts)):
            yield "If-None-Match does not keep an object from being replaced by CompleteMultipartUpload"
    yield from _revoked(bucket, source, target)


def _look_for(upload: Multipart) -> None:
    """Log what stays if the store does not list an upload by the directory of its key.

    It is safe, as nothing completes such an upload. Raises StorageError if the store refuses the listing.
    """
    directory = f"{upload.key.rpartition('/')[0]}/"
    if upload not in Multipart.begun_below(upload.bucket, directory):
        _log.warning(
            "%s lists uploads by their whole key only: those of a driver that died early stay until the store or a "
            "lifecycle rule removes them",
            upload.bucket.uri(""),
        )


def _revoked(bucket: Bucket, source: str, target: str) -> Iterator[str]:
    """Yield why an upload that was aborted may come back."""
    with _upload(bucket, source, target) as (upload, parts):
        upload.abort()
        if _accepts(lambda: upload.complete(parts)):
            yield "an upload that was aborted is completed where an object exists"
        bucket.delete([target])
        if _accepts(lambda: upload.complete(parts)) or bucket.head(target):
            yield "an upload that was aborted is completed"
        if _accepts(lambda: upload.put(1, _CONTENT)):
            yield "an upload that was aborted takes parts"


@contextmanager
def _upload(bucket: Bucket, source: str, target: str) -> Iterator[tuple[Multipart, list[Part]]]:
    """Begin an upload to `target` with a part that is copied from `source`; abort it in the end."""
    found = bucket.head(source)
    if found is None:
        raise StorageError(f"{bucket.uri(source)} was just written, but is not there")
    upload = Multipart.begin(bucket, target, {})
    try:
        yield upload, [upload.copy(1, Range(bucket.name, found, 0, found.size))]
    finally:
        upload.abort()


def _accepts(call: Callable[[], object]) -> bool:
    """Whether the store carries out a call that it must refuse. Raises StorageError if it fails for another reason."""
    try:
        call()
    except AlreadyExistsError:
        return False
    except S3Error as error:
        if error.status not in TAKEN and error.code not in GONE:
            raise
        return False
    return True
