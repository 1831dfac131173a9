"""Spellings of one place, and what is refused."""

from pathlib import Path

import pytest

from compaction_operator.storage import (
    StorageError,
    is_below,
    join,
    local_path,
    normal,
    open_storage,
    resolve_location,
)
from compaction_operator.storage.uri import Location


@pytest.mark.parametrize(
    "uri", ["file:/a/b", "file:///a/b", "/a/b", "/a/b/", "/a//b", "FILE:/a/b", "file:////a/b", "///a/b"]
)
def test_spellings_of_one_place(uri: str) -> None:
    assert local_path(uri) == "/a/b"


def test_percent_signs_and_colons_are_literal() -> None:
    assert local_path("file:/a/prt=a%3Ab") == "/a/prt=a%3Ab"
    assert local_path("/a/time=12:00") == "/a/time=12:00"


@pytest.mark.parametrize("scheme", ["s3a", "s3", "s3n", "S3A"])
def test_spellings_of_one_place_on_s3(scheme: str) -> None:
    location = Location.parse(f"{scheme}://lake/w/prt=a%3Ab/")
    assert (location.authority, location.names) == ("lake", ("w", "prt=a%3Ab"))
    assert str(location) == "s3a://lake/w/prt=a%3Ab"
    assert normal(f"{scheme}://lake") == "s3a://lake/"


@pytest.mark.parametrize(
    "uri",
    ["s3a:/lake/w", "s3a://", "s3a:///w", "s3a://lake//w", "s3a://lake/w//t", "s3a://lake/w//", "s3a://lake/../w"],
)
def test_what_is_no_certain_key_is_refused(uri: str) -> None:
    """S3 knows `a//b` and `a/b` as different keys, and Hadoop as one."""
    with pytest.raises(StorageError):
        Location.parse(uri)


def test_a_secret_in_a_uri_is_not_repeated() -> None:
    """Old versions of Hadoop took keys there."""
    with pytest.raises(StorageError) as refused:
        Location.parse("s3n://AKIAXXXX:secret@lake/w")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("uri", ["abfs://container/a", "gs:/x"])
def test_an_unknown_scheme_is_named_with_what_is_supported(uri: str) -> None:
    with pytest.raises(StorageError, match=rf"'{uri.partition(':')[0]}' is not supported; only file:"):
        open_storage(uri)


@pytest.mark.parametrize("uri", ["file://host/a", "a/b", "file:a/b", "", "/a/../b", "/a/./b", "/a/\0b"])
def test_what_is_no_absolute_local_path_is_refused(uri: str) -> None:
    with pytest.raises(StorageError):
        local_path(uri)


@pytest.mark.parametrize(
    ("uri", "folder", "below"),
    [
        ("/lake/t", "/lake", True),
        ("file:///lake//t/", "/lake/", True),
        ("/lake", "file:/lake", True),
        ("/lake/t", "/", True),
        ("/lakes/t", "/lake", False),
        ("/other/lake/t", "/lake", False),
        ("/", "/lake", False),
        ("s3://lake/w/t", "s3a://lake/w/", True),
        ("s3a://lakes/w/t", "s3a://lake/w", False),
        ("s3a://lake/w", "/w", False),
    ],
)
def test_what_is_below_a_folder(uri: str, folder: str, below: bool) -> None:
    """By whole names, in any spelling."""
    assert is_below(uri, folder) is below


@pytest.mark.parametrize("uri", ["/lake/../t", "abfs://lake/t", "lake/t"])
def test_what_could_lead_out_is_below_nothing(uri: str) -> None:
    with pytest.raises(StorageError):
        is_below(uri, "/lake")


def test_join_keeps_the_spelling() -> None:
    assert join("file:///a/b/", "c", "d") == "file:///a/b/c/d"
    assert join("file:/a", "prt=a%3Ab") == "file:/a/prt=a%3Ab"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "/etc", "a\0"])
def test_join_takes_plain_names_only(name: str) -> None:
    """H21: nothing that is joined leads out of the directory."""
    with pytest.raises(StorageError):
        join("file:/a", name)


def test_a_typed_location_may_be_relative_and_go_through_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    for text in ("link", "./link", f"{tmp_path}/link", f"file:{tmp_path}/link", f"file://{tmp_path}/link"):
        assert resolve_location(text) == str(tmp_path / "real")


@pytest.mark.parametrize("text", ["", "gs:/a", "file:a"])
def test_a_typed_location_of_no_local_place_is_refused(text: str) -> None:
    with pytest.raises(StorageError):
        resolve_location(text)
