"""The client of S3 asks with the credentials of now, and never shows them."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import JSONFileLoader

from compaction_operator.api.stores import S3Connection
from compaction_operator.storage import StorageError
from compaction_operator.storage.s3 import Pace, connect
from compaction_operator.storage.s3.client import _timestamp, make_client
from compaction_operator.storage.s3.objects import Bucket

SECRET = "wJalrXUtnFEMI"


def write_keys(path: Path, number: int, *, token: str = "") -> None:
    """Replace a file at once, as kubelet does with a mounted secret."""
    lines = ["[default]", f"aws_access_key_id = AKIA{number}", f"aws_secret_access_key = {SECRET}{number}"]
    new = path.with_suffix(".new")
    new.write_text("\n".join([*lines, f"aws_session_token = {token}"] if token else lines))
    new.rename(path)


def keys_of(path: Path) -> list[tuple[str, str, str | None]]:
    """The credentials of three requests, between which the file is replaced."""
    client = make_client(S3Connection(credentials_file=str(path)), Pace())
    found = []
    for number in range(3):
        write_keys(path, number, token=f"token{number}" if number == 1 else "")
        frozen = client._request_signer._credentials.get_frozen_credentials()  # type: ignore[attr-defined]
        found.append((frozen.access_key, frozen.secret_key, frozen.token))
    return found


def test_a_file_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    write_keys(tmp_path / "credentials", 9)
    assert keys_of(tmp_path / "credentials") == [
        ("AKIA0", f"{SECRET}0", None),
        ("AKIA1", f"{SECRET}1", "token1"),
        ("AKIA2", f"{SECRET}2", None),
    ]


def test_a_mounted_secret_is_a_link_that_is_turned(tmp_path: Path) -> None:
    for number in (0, 1):
        (tmp_path / f"version{number}").mkdir()
        write_keys(tmp_path / f"version{number}" / "credentials", number)
    (tmp_path / "data").symlink_to("version0")
    client = make_client(S3Connection(credentials_file=str(tmp_path / "data" / "credentials")), Pace())
    (tmp_path / "new").symlink_to("version1")
    os.replace(tmp_path / "new", tmp_path / "data")  # noqa: PTH105
    frozen = client._request_signer._credentials.get_frozen_credentials()  # type: ignore[attr-defined]
    assert frozen.access_key == "AKIA1"


@pytest.mark.parametrize(
    "content",
    [None, "", SECRET, f"[default]\n{SECRET}", f"[default]\naws_secret_access_key = {SECRET}", f"[other]\nx={SECRET}"],
)
def test_a_file_without_credentials_is_named_and_not_quoted(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "credentials"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StorageError, match=str(path)) as raised:
        Bucket("lake", S3Connection(credentials_file=str(path)), Pace())
    assert SECRET not in str(raised.value)


def test_settings_that_cannot_be_used_are_a_storage_error(tmp_path: Path) -> None:
    write_keys(tmp_path / "credentials", 1)
    connection = S3Connection(credentials_file=str(tmp_path / "credentials"), ca_file=str(tmp_path / "no-such-ca"))
    bucket = Bucket("lake", connection.model_copy(update={"endpoint": "https://127.0.0.1:1"}), Pace(attempts=1))
    with pytest.raises(StorageError, match="s3a://lake/t"):
        bucket.content("t")


def test_without_settings_a_bucket_is_that_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    bucket = connect("lake", None).bucket
    assert bucket.client.meta.endpoint_url == "https://s3.eu-central-1.amazonaws.com"


def test_the_clients_of_many_buckets_share_what_botocore_knows_of_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 12 MB, and a warehouse may have a bucket for each team."""
    make_client(S3Connection(region="eu-central-1"), Pace())
    monkeypatch.setattr(JSONFileLoader, "load_file", lambda _, path: pytest.fail(f"{path} is read again"))
    make_client(S3Connection(region="us-east-1"), Pace())


@pytest.mark.parametrize(
    "text", ["2026-11-23T08:00:00.123Z", "2026-11-23T08:00:00.123+00:00", "2026-11-23T09:00:00.123+01:00"]
)
def test_times_are_those_of_botocore(text: str) -> None:
    assert _timestamp(text) == datetime(2026, 11, 23, 8, 0, 0, 123_000, UTC)


def test_times_of_headers_are_those_of_botocore() -> None:
    assert _timestamp("Mon, 23 Nov 2026 08:00:00 GMT") == datetime(2026, 11, 23, 8, tzinfo=UTC)


@pytest.mark.parametrize("value", ["1795420800", 1795420800])
def test_other_times_are_left_to_botocore(value: Any) -> None:
    assert _timestamp(value) == datetime(2026, 11, 23, 8, tzinfo=UTC)
