"""One multipart upload: its parts, which are bytes or ranges that S3 copies, its completion and its revocation."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compaction_operator.storage.base import StorageError
from compaction_operator.storage.s3.objects import Bucket, Object, S3Error, md5, naming

if TYPE_CHECKING:
    from types_boto3_s3.type_defs import CompletedPartTypeDef

MIN_PART = 5 << 20
"""Smallest part but the last, in bytes: a rule of S3."""

COPY_BYTES = 512 << 20
"""Largest range that is copied by one call, which must end while the client waits for an answer."""

GONE = "NoSuchUpload"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an upload: its number, its size in bytes, and the tag of its content."""

    number: int
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Range:
    """A range of an object, from `start` to before `end`."""

    bucket: str
    source: Object
    start: int
    end: int

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.end - self.start

    def pieces(self) -> "Iterator[Range]":
        """Yield ranges of COPY_BYTES, the last of at least as much unless it is the only one."""
        start = self.start
        while self.end - start >= 2 * COPY_BYTES:
            yield Range(self.bucket, self.source, start, start + COPY_BYTES)
            start += COPY_BYTES
        yield Range(self.bucket, self.source, start, self.end)


@dataclass(frozen=True, slots=True)
class Multipart:
    """An upload to a key. Every method raises StorageError; S3Error with the code GONE once it was aborted."""

    bucket: Bucket
    key: str
    upload_id: str

    @classmethod
    def begin(cls, bucket: Bucket, key: str, metadata: dict[str, str]) -> "Multipart":
        """Begin an upload."""
        with naming(bucket.uri(key), "begin an upload"):
            begun = bucket.client.create_multipart_upload(Bucket=bucket.name, Key=key, Metadata=metadata)
            return cls(bucket, key, begun["UploadId"])

    @classmethod
    def begun_below(cls, bucket: Bucket, prefix: str) -> "Iterator[Multipart]":
        """Yield the uploads to keys that begin with a prefix. NB: MinIO lists those to a whole key only."""
        pages = bucket.client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket.name, Prefix=prefix)
        with naming(bucket.uri(prefix), "list the uploads"):
            for page in pages:
                for found in page.get("Uploads", ()):
                    yield cls(bucket, found["Key"], found["UploadId"])

    def put(self, number: int, data: bytes) -> Part:
        """Write a part."""
        with naming(self._uri, f"write part {number}"):
            answer = self.bucket.client.upload_part(
                Bucket=self.bucket.name,
                Key=self.key,
                UploadId=self.upload_id,
                PartNumber=number,
                Body=data,
                ContentMD5=md5(data),
            )
            return Part(number, len(data), answer["ETag"])

    def copy(self, number: int, piece: Range) -> Part:
        """Have S3 copy a part from an object, which must not have been replaced."""
        with naming(self._uri, f"copy {piece.source.key} into part {number}"):
            answer = self.bucket.client.upload_part_copy(
                Bucket=self.bucket.name,
                Key=self.key,
                UploadId=self.upload_id,
                PartNumber=number,
                CopySource={"Bucket": piece.bucket, "Key": piece.source.key},
                CopySourceIfMatch=piece.source.etag,
                CopySourceRange=f"bytes={piece.start}-{piece.end - 1}",
            )
            return Part(number, piece.size, answer["CopyPartResult"]["ETag"])

    def parts(self) -> list[Part]:
        """Return the parts that S3 has."""
        parts: list[Part] = []
        marker = 0
        while True:
            with naming(self._uri, "list the parts of an upload"):
                page = self.bucket.client.list_parts(
                    Bucket=self.bucket.name,
                    Key=self.key,
                    UploadId=self.upload_id,
                    PartNumberMarker=marker,
                )
                parts += [Part(part["PartNumber"], part["Size"], part["ETag"]) for part in page.get("Parts", ())]
                if not page["IsTruncated"]:
                    return parts
                marker = page["NextPartNumberMarker"]

    def complete(self, parts: Sequence[Part]) -> str:
        """Make the object appear unless the key is taken, and return its tag."""
        listed: list[CompletedPartTypeDef] = [{"PartNumber": part.number, "ETag": part.etag} for part in parts]
        with naming(self._uri, "complete an upload"):
            answer = self.bucket.client.complete_multipart_upload(
                Bucket=self.bucket.name,
                Key=self.key,
                UploadId=self.upload_id,
                MultipartUpload={"Parts": listed},
                IfNoneMatch="*",
            )
            return answer["ETag"]

    def abort(self) -> None:
        """Revoke the upload; one that is gone is not an error."""
        try:
            with naming(self._uri, "abort an upload"):
                self.bucket.client.abort_multipart_upload(
                    Bucket=self.bucket.name, Key=self.key, UploadId=self.upload_id
                )
        except S3Error as error:
            if error.code != GONE:
                raise

    def give_up(self) -> None:
        """Abort after an error, which counts more than that of aborting."""
        with suppress(StorageError):
            self.abort()

    @property
    def _uri(self) -> str:
        return self.bucket.uri(self.key)


def etag_of(parts: Sequence[Part]) -> str:
    """Return the tag of the object that parts make: the digest of their digests (unless S3 encrypts with a key)."""
    digests = b"".join(_digest(part.etag.strip('"')) for part in parts)
    return f'"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"'


def _digest(etag: str) -> bytes:
    try:
        return bytes.fromhex(etag)
    except ValueError:
        return etag.encode()
