"""One bucket's objects by key. Each call is checked to be whole and right, and each error names URI and operation."""

import base64
import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
)

from compaction_operator.api.stores import S3Connection
from compaction_operator.permit import Permit, always
from compaction_operator.storage.base import AlreadyExistsError, NotFoundError, StorageError
from compaction_operator.storage.s3.client import Pace, make_client
from compaction_operator.storage.uri import S3_SCHEME, Location

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import GetObjectOutputTypeDef, ListObjectsV2RequestTypeDef

DELETE_KEYS = 1000
"""Most keys of one deletion."""

MARK = "compaction-mark"
"""Metadata by which a writer knows its own object again when the answer to its creation was lost."""

NO_RANGE = 416
"""Status of a range that an object does not have: an empty one has none."""

TAKEN = {409, 412}
"""Status of a creation that found the name taken, or another call working on it."""

UNKNOWN_CALLER = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
"""Codes for keys and tokens that are old, or not known yet. They are replaced while we run, so the call may succeed
later. NB: AccessDenied is not one of them: S3 knows the caller, and will refuse it again."""

_LAST = chr(0x10FFFF)
"""The last of all characters, to begin a listing behind a directory."""


class S3Error(StorageError):
    """S3 refused a call, or did not answer: whether it was carried out is not known. `code` is S3's."""

    def __init__(self, message: str, *, code: str = "", status: int = 0, passing: bool = False) -> None:
        may_pass = passing or code in UNKNOWN_CALLER or status >= 500 or status in {408, 429}
        super().__init__(message, passing=may_pass)
        self.code = code
        self.status = status


@contextmanager
def naming(uri: str, operation: str) -> Iterator[None]:
    """Translate the client's errors, and that of an answer without what S3 always says.

    The message is one line that names the URI and the operation.
    """
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = error.response.get("Error", {}).get("Message", "")
        raise S3Error(f"{uri}: {operation}: S3 answered {code}: {message}", code=code, status=status) from error
    except (BotoCoreError, RecursionError) as error:  # botocore follows a redirection that leads nowhere for ever
        message, code = str(error).partition("\n")[0], type(error).__name__
        passing = isinstance(error, HTTPClientError | CredentialRetrievalError)
        raise S3Error(f"{uri}: {operation}: {message}", code=code, passing=passing) from error
    except KeyError as error:
        raise S3Error(f"{uri}: {operation}: the answer is not S3's: it lacks {error}") from error
    except OSError as error:
        raise S3Error(f"{uri}: {operation}: {error}", code=type(error).__name__, passing=True) from error


@dataclass(frozen=True, slots=True)
class Object:
    """An object: its key, its size in bytes, and the tag that changes with its content."""

    key: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing, and whether there are more."""

    objects: tuple[Object, ...]
    more: bool


class Bucket:
    """The objects of a bucket. Thread-safe. Every method raises StorageError."""

    def __init__(self, name: str, settings: S3Connection, pace: Pace, *, permit: Permit = always) -> None:
        self.name = name
        self.settings = settings
        self._pauses = pace.pauses
        with naming(self.uri(""), "connect"):
            self.client: S3Client = make_client(settings, pace, permit=permit)

    def uri(self, key: str) -> str:
        """Return the URI of a key, for messages."""
        return f"s3a://{self.name}/{key}"

    def key(self, location: Location) -> str:
        """Return the key of a location, '' for the root. Raises StorageError if it is in another bucket."""
        if (location.scheme, location.authority) != (S3_SCHEME, self.name):
            raise StorageError(f"{location} is not in the bucket {self.name}")
        return "/".join(location.names)

    def pages(self, prefix: str, after: str = "", *, limit: int = 1000) -> Iterator[Page]:
        """Yield the objects whose key begins with `prefix`, in order of their keys, `limit` at a time.

        NB: an answer that is cut off, or not S3's, could look like the end of the listing. And no delimiter is used,
        because with it MinIO lists directories that have nothing but older versions.
        """
        request: ListObjectsV2RequestTypeDef = {"Bucket": self.name, "Prefix": prefix, "MaxKeys": limit}
        if after:
            request["StartAfter"] = after
        while True:
            with naming(self.uri(prefix), "list"):
                page = self.client.list_objects_v2(**request)
                objects = [Object(found["Key"], found["Size"], found["ETag"]) for found in page.get("Contents", ())]
                more = page["IsTruncated"]
                if more:
                    request["ContinuationToken"] = page["NextContinuationToken"]
            yield Page(tuple(objects), more)
            if not more:
                return

    def below(self, prefix: str, *, limit: int = 1000) -> Iterator[Object]:
        """Yield every object whose key begins with `prefix`, in order, `limit` from each call."""
        return (found for page in self.pages(prefix, limit=limit) for found in page.objects)

    def children(self, prefix: str) -> Iterator[Object]:
        """Yield objects below a directory, at least one of each of its children, and skip the rest of large ones."""
        pages = self.pages(prefix)
        while page := next(pages, None):
            yield from page.objects
            if page.more and page.objects:
                last = page.objects[-1].key
                child, slash, _ = last.removeprefix(prefix).partition("/")
                pages = self.pages(prefix, f"{prefix}{child}/{_LAST}" if slash else last)

    def first(self, prefix: str) -> Object | None:
        """Return the first object whose key begins with `prefix`: that of the very key, if there is one."""
        return next(self.below(prefix, limit=1), None)

    def head(self, key: str) -> Object | None:
        """Return the object of a key, or None.

        NB: a refusal of HEAD has no reason, so a listing must confirm a 404, and tells whether the keys are too old.
        """
        try:
            return self._head(key)[0]
        except S3Error as error:
            if error.status not in {400, 403, 404}:
                raise
            found = self.first(key)
            if error.status != 404 or (found and found.key == key):
                raise
            return None

    def _head(self, key: str) -> tuple[Object, str | None]:
        """Return an object and the mark of its writer."""
        with naming(self.uri(key), "look up"):
            found = self.client.head_object(Bucket=self.name, Key=key)
            return Object(key, found["ContentLength"], found["ETag"]), found["Metadata"].get(MARK)

    def get(self, found: Object, start: int = 0, length: int | None = None) -> bytes:
        """Return a range of an object. Raises NotFoundError if it is gone and StorageError if it was replaced."""
        length = found.size - start if length is None else length
        if not length:
            return b""
        bounds = f"bytes={start}-{start + length - 1}"

        def ask() -> "GetObjectOutputTypeDef":
            return self.client.get_object(Bucket=self.name, Key=found.key, Range=bounds, IfMatch=found.etag)

        data = self._body(found.key, ask)
        if len(data) != length:
            raise S3Error(f"{self.uri(found.key)}: read: {len(data)} bytes came instead of {length}")
        return data

    def end(self, key: str, length: int) -> tuple[Object, bytes]:
        """Return an object with its last bytes, at most `length`, by one request. Raises NotFoundError."""
        answers: list[GetObjectOutputTypeDef] = []

        def ask() -> "GetObjectOutputTypeDef":
            answers.append(self.client.get_object(Bucket=self.name, Key=key, Range=f"bytes=-{length}"))
            return answers[-1]

        try:
            data = self._body(key, ask)
        except S3Error as error:
            if error.status != NO_RANGE or not (found := self.head(key)) or found.size:
                raise
            return found, b""
        answer = answers[-1]
        size = answer.get("ContentRange", "").rpartition("/")[2]
        found = Object(key, int(size) if size.isdigit() else len(data), answer["ETag"])
        if len(data) != min(length, found.size):
            raise S3Error(f"{self.uri(key)}: read: {len(data)} bytes came of the last {length} of {found.size}")
        return found, data

    def content(self, key: str) -> bytes:
        """Return a whole object. Raises NotFoundError."""
        return self._body(key, lambda: self.client.get_object(Bucket=self.name, Key=key))

    def _body(self, key: str, ask: Callable[[], "GetObjectOutputTypeDef"]) -> bytes:
        """Return the body of an answer. NB: the client's own retries end where a body begins."""
        for pause in (*self._pauses, None):
            with self._reading(key):
                answer = ask()
                _confirm(answer["ETag"])
                try:
                    return answer["Body"].read()
                except (HTTPClientError, IncompleteReadError):
                    if pause is None:
                        raise
            time.sleep(pause)
        raise AssertionError  # the last turn returns or raises

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        try:
            with naming(self.uri(key), "read"):
                yield
        except S3Error as error:
            if error.code == "NoSuchKey":
                raise NotFoundError(f"{self.uri(key)} does not exist") from error
            if error.status == 412:
                raise S3Error(f"{self.uri(key)}: it was replaced while it was read", status=412) from error
            raise

    def create(self, key: str, data: bytes) -> None:
        """Create an object. Raises AlreadyExistsError if the key is taken."""
        mark = new_mark()
        with self.creating(key, mark), naming(self.uri(key), "write"):
            answer = self.client.put_object(
                Bucket=self.name, Key=key, Body=data, ContentMD5=md5(data), IfNoneMatch="*", Metadata=mark
            )
            _confirm(answer["ETag"])

    @contextmanager
    def creating(self, key: str, mark: dict[str, str]) -> Iterator[None]:
        """Judge a creation that found the key taken: perhaps by itself, when it was tried again.

        A tried-again completion may find its upload gone, too. Raises AlreadyExistsError if the key is another's.
        """
        try:
            yield
        except S3Error as error:
            if error.status not in TAKEN and error.code != "NoSuchUpload":
                raise
            if self.head(key) is None:
                raise
            if self._head(key)[1] != mark[MARK]:
                raise AlreadyExistsError(f"{self.uri(key)} exists already") from error

    def delete(self, keys: Sequence[str]) -> None:
        """Delete at most DELETE_KEYS objects. Raises StorageError that names each key that was not."""
        with naming(self.uri(keys[0]), f"delete {len(keys)} objects"):
            answer = self.client.delete_objects(
                Bucket=self.name, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": False}
            )
        reasons = {error.get("Key"): error.get("Message", "") for error in answer.get("Errors", ())}
        left = sorted(set(keys) - {found.get("Key") for found in answer.get("Deleted", ())} | set(keys) & set(reasons))
        if left:
            failed = ", ".join(f"{self.uri(key)} ({reasons.get(key, 'no answer')})" for key in left)
            raise S3Error(f"S3 has not deleted {failed}")


def _confirm(etag: str) -> None:
    """Take an answer for S3's, since it names the object's tag. A proxy's page has none."""
    if not etag:
        raise KeyError("ETag")


def new_mark() -> dict[str, str]:
    """Return metadata that no other object has."""
    return {MARK: uuid.uuid4().hex}


def md5(data: bytes) -> str:
    """Return the value of Content-MD5."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def batches(objects: Iterable[Object], size: int = DELETE_KEYS) -> Iterator[list[Object]]:
    """Yield lists of at most `size` objects."""
    batch: list[Object] = []
    for one in objects:
        batch.append(one)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
