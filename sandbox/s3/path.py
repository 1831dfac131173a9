"""Files on S3 with pathlib's methods, so that tests use the same lines for them as for local files.

It shares no code with the product's storage, which tests hold against it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Self

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

if TYPE_CHECKING:  # NB: a pod of the operator's image runs this, too.
    from types_boto3_s3 import S3Client

    from sandbox.s3.server import S3Server

_PATH_STYLE = Config(s3={"addressing_style": "path"})
_CLIENTS: dict[str, "S3Client"] = {}
"""By bucket: a path does not say which server has it."""


class S3Path(PurePosixPath):
    """A path of `s3a://bucket/...`, or relative to one. It is given and printed as a URI.

    A bucket that `make_bucket` has not made in this process is on the server of boto3's environment variables.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Return the URI. NB: pathlib drops the second slash."""
        scheme, colon, rest = super().__str__().partition(":/")
        return f"{scheme}://{rest}" if colon else scheme

    def iterdir(self) -> Iterator[Self]:
        """Yield the direct children. Raises FileNotFoundError."""
        names = {key.removeprefix(self._prefix).partition("/")[0] for key in self._below()}
        if not names and self._key:
            raise FileNotFoundError(str(self))
        yield from (self / name for name in sorted(names - {""}))

    def exists(self) -> bool:
        """Whether it is an object, or has any below it."""
        with suppress(FileNotFoundError):
            return self.size() >= 0
        return self.is_dir()

    def is_dir(self) -> bool:
        """Whether there is an object below it, such as a marker."""
        return next(self._below(), None) is not None

    def size(self) -> int:
        """Return the bytes of an object. Raises FileNotFoundError."""
        try:
            return self._client.head_object(Bucket=self._bucket, Key=self._key)["ContentLength"]
        except ClientError as error:
            raise _not_found(error) from error

    def read_bytes(self) -> bytes:
        """Return an object's content. Raises FileNotFoundError."""
        try:
            return self._client.get_object(Bucket=self._bucket, Key=self._key)["Body"].read()
        except ClientError as error:
            raise _not_found(error) from error

    def write_bytes(self, data: bytes) -> int:
        """Create or replace an object."""
        self._client.put_object(Bucket=self._bucket, Key=self._key, Body=data)
        return len(data)

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:  # noqa: ARG002 - as pathlib's
        """Put a marker, as Hadoop does. Parents need none."""
        if not self.exists():
            self._client.put_object(Bucket=self._bucket, Key=self._prefix)
        elif not exist_ok:
            raise FileExistsError(str(self))

    def rename(self, target: str | os.PathLike[str]) -> Self:
        """Copy all of it to a name that does not exist, then delete it. NB: who looks meanwhile sees parts of it."""
        new = type(self)(target)
        if new.exists():
            raise FileExistsError(str(new))
        for key in [*self._itself(), *self._below()]:
            source = {"Bucket": self._bucket, "Key": key}
            moved = new._key + key.removeprefix(self._key)
            self._client.copy_object(Bucket=new._bucket, Key=moved, CopySource=source)  # type: ignore[arg-type]
        self.remove_tree()
        return new

    def remove_tree(self) -> None:
        """Remove it and all below, if it is there."""
        for key in [*self._itself(), *self._below()]:
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def uploads(self) -> list[str]:
        """Return the ids of the uploads to this object that were begun and neither completed nor aborted."""
        found = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=self._key)
        return [upload["UploadId"] for upload in found.get("Uploads", ()) if upload["Key"] == self._key]

    def _itself(self) -> Iterator[str]:
        with suppress(FileNotFoundError):
            self.size()
            yield self._key

    def _below(self) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
        return (found["Key"] for page in pages for found in page.get("Contents", ()))

    @property
    def _bucket(self) -> str:
        return self.parts[1]

    @property
    def _key(self) -> str:
        return "/".join(self.parts[2:])

    @property
    def _prefix(self) -> str:
        return f"{self._key}/" if self._key else ""

    @property
    def _client(self) -> "S3Client":
        return _CLIENTS.get(self._bucket) or _client_of_environment()


@cache
def _client_of_environment() -> "S3Client":
    client: S3Client = boto3.client("s3", config=_PATH_STYLE)
    return client


def make_bucket(server: "S3Server", name: str, *, versioned: bool = False) -> S3Path:
    """Make a bucket on a server that runs, and return its root. No two servers may have one of the same name."""
    client: S3Client = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        config=_PATH_STYLE,
    )
    client.create_bucket(Bucket=name)
    if versioned:
        client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    _CLIENTS[name] = client
    return S3Path(f"s3a://{name}")


def _not_found(error: ClientError) -> Exception:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return FileNotFoundError(str(error)) if status == 404 else error
