"""The probe recognizes what a real store does and what it lacks."""

import pytest
from sandbox.s3.server import Kind, S3Server

from compaction_operator.storage import StorageError
from compaction_operator.storage.s3 import S3Storage
from tests.integration.storage.s3.conftest import PLAIN, storage_at

COMPLETES_ABORTED = "an upload that was aborted is completed where an object exists"


def test_a_probe_says_what_a_store_lacks_and_leaves_nothing(kind: Kind, storage: S3Storage, place: str) -> None:
    """MinIO lacks nothing, with versions and without."""
    assert storage.uploads.probe(place) == (None if kind == "minio" else COMPLETES_ABORTED)
    assert storage.list(place) == []


def test_a_probe_says_whether_uploads_are_found_by_their_directory(
    kind: Kind, storage: S3Storage, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """On MinIO those of a driver that died before its journal are left to MinIO."""
    storage.uploads.probe(place)
    assert ("lists uploads by their whole key only" in caplog.text) == (kind == "minio")


@pytest.mark.parametrize(("kind", "bucket"), [("minio", PLAIN)], scope="session")
def test_a_store_that_does_not_answer_the_question_is_no_answer(server: S3Server, bucket: str) -> None:
    """The error is that of the first step, not of what tidies up after it."""
    with pytest.raises(StorageError, match="source: write: S3 answered NoSuchBucket"):
        storage_at(server, f"not-{bucket}").uploads.probe(f"s3a://not-{bucket}/table")


def test_an_interrupted_probe_leaves_nothing(
    kind: Kind, storage: S3Storage, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by SIGTERM, which ends `doctor` so."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("compaction_operator.storage.s3.probe._upload", interrupted)
    with pytest.raises(KeyboardInterrupt):
        storage.uploads.probe(place)
    assert storage.list(place) == []
