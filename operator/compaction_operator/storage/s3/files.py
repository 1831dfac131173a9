"""Files on S3 for ORC's reader and writer: ranges of one version of an object, and a new object made of parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from compaction_operator.storage.files import RangedReader
from compaction_operator.storage.s3.multipart import MIN_PART, Multipart, Part, Range
from compaction_operator.storage.s3.objects import Bucket, new_mark

PART_BYTES = 8 << 20
"""Size of a part of bytes that this process writes."""

END_BYTES = 32 << 10
"""How much of an object's end comes when it is opened: the tail of most files."""

_PREFIX_BYTES = 64
"""Most bytes before a copied range that are looked for in its source: there, ORC's first stripe follows the magic."""


class S3Reader:
    """An open object: its size in bytes, and its ranges. All are of the version that was opened.

    The request that opens it brings its end, which ORC's readers want first.
    """

    def __init__(self, bucket: Bucket, key: str) -> None:
        self.bucket = bucket
        self.found, self._end = bucket.end(key, END_BYTES)
        self.size: int = self.found.size

    def read(self, offset: int, length: int) -> bytes:
        """Return a range that lies within the object."""
        return self.bucket.get(self.found, offset, length)

    def take_end(self) -> bytes:
        """Return the end that came with the object."""
        end, self._end = self._end, b""
        return end


class S3Writer:
    """A new object, which exists whole once it is closed. Raises AlreadyExistsError then if the key is taken.

    Bytes and ranges wait until they make a part: what was written, then at most one range that S3 is to copy.
    NB: a file object that is closed after an error closes its writer, too. So an error is final.
    """

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._bucket = bucket
        self._key = key
        self._mark = new_mark()
        self._written = bytearray()
        self._range: Range | None = None
        self._upload: Multipart | None = None
        self._parts: list[Part] = []
        self._failed: BaseException | None = None

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        with self._unless_failed():
            self._settle()
            self._written += data
            while len(self._written) >= PART_BYTES + MIN_PART:
                self._put(PART_BYTES)

    def copy(self, source: RangedReader, offset: int, length: int) -> bool:
        """Append a range of an open object. Return False, and do nothing, if this bucket cannot copy from there."""
        if not isinstance(source, S3Reader) or source.bucket.settings != self._bucket.settings:
            return False
        if offset + length > source.size:
            return False
        with self._unless_failed():
            if self._range and (self._range.source, self._range.end) == (source.found, offset):
                self._range = replace(self._range, end=offset + length)
            else:
                self._settle()
                self._range = Range(source.bucket.name, source.found, offset, offset + length)
                self._drop_written(source)
        return True

    def close(self) -> None:
        """Complete the object."""
        with self._unless_failed():
            self._settle()
            if self._upload is None:
                self._bucket.create(self._key, bytes(self._written))
                return
            if self._written:
                self._put(len(self._written))
            with self._bucket.creating(self._key, self._mark):
                self._upload.complete(self._parts)

    def abort(self) -> None:
        """Give the object up."""
        if self._upload:
            self._upload.give_up()

    @contextmanager
    def _unless_failed(self) -> Iterator[None]:
        if self._failed:
            raise self._failed
        try:
            yield
        except BaseException as error:
            self._failed = error
            self.abort()
            raise

    def _drop_written(self, source: S3Reader) -> None:
        """Let the range begin earlier, if what was written stands before it in its source, too."""
        assert self._range
        size, start = len(self._written), self._range.start
        if 0 < size <= min(_PREFIX_BYTES, start) and source.read(start - size, size) == self._written:
            self._written.clear()
            self._range = Range(self._range.bucket, source.found, start - size, self._range.end)

    def _settle(self) -> None:
        """Have S3 copy the range that waits. What is too small for parts is read, and waits as if it were written."""
        waiting, self._range = self._range, None
        if waiting is None:
            return
        missing = max(0, MIN_PART - len(self._written)) if self._written else 0
        if waiting.size - missing < MIN_PART:
            missing = waiting.size
        if missing:
            self._written += self._bucket.get(waiting.source, waiting.start, missing)
        rest = Range(waiting.bucket, waiting.source, waiting.start + missing, waiting.end)
        if rest.size:
            if self._written:
                self._put(len(self._written))
            for piece in rest.pieces():
                self._parts.append(self._begun().copy(len(self._parts) + 1, piece))

    def _put(self, size: int) -> None:
        with memoryview(self._written) as written:
            part = bytes(written[:size])
        self._parts.append(self._begun().put(len(self._parts) + 1, part))
        del self._written[:size]

    def _begun(self) -> Multipart:
        if self._upload is None:
            self._upload = Multipart.begin(self._bucket, self._key, self._mark)
        return self._upload
