"""Keys that are replaced while we run, and settings that are wrong."""

from pathlib import Path

import pytest
from sandbox.s3.server import S3Server

from compaction_operator.storage import NotFoundError, StorageError, join
from compaction_operator.storage.s3 import S3Storage
from compaction_operator.storage.s3.objects import Bucket
from tests.integration.storage.s3.conftest import PARAMETERS, QUICK, STORES, storage_at
from tests.integration.storage.s3.token_service import TokenService


def test_a_storage_goes_on_with_new_keys(server: S3Server, storage: S3Storage, place: str) -> None:
    """The old ones were revoked before the new ones came. An error is "not known" meanwhile."""
    own = storage_at(server, storage.bucket.name, pace=QUICK)
    keys = server.credentials_file.read_text()
    own.write(join(place, "file"), b"content")
    server.credentials_file.write_text(keys.replace(server.secret_key, "revoked-secret"))
    try:
        for use in (own.list, own.exists, own.delete_tree, own.reader):
            with pytest.raises(StorageError, match="file") as raised:
                use(join(place, "file"))
            assert raised.value.passing and not isinstance(raised.value, NotFoundError)
            assert "revoked-secret" not in str(raised.value)
        with pytest.raises(StorageError) as raised:
            own.uploads.begin(place, {"base_1_v7/bucket_00001": join(place, "file")})
        assert raised.value.passing
    finally:
        server.credentials_file.write_text(keys)
    assert own.read(join(place, "file")) == b"content"


@pytest.mark.parametrize(PARAMETERS, [STORES["minio"]], scope="session", ids=["minio"])
def test_session_keys_that_expire_are_renewed_with_the_token_of_now(
    server: S3Server, storage: S3Storage, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Web identity (IRSA): Kubernetes replaces the token in its file, and AWS then refuses the old one."""
    token = tmp_path / "token"
    token.write_text("first")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/compaction")
    with TokenService(server, accepts="first") as tokens:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", tokens.endpoint)
        own = S3Storage(
            Bucket(storage.bucket.name, server.settings().model_copy(update={"credentials_file": None}), QUICK)
        )
        own.write(join(place, "file"), b"content")
        tokens.accepts = "second"
        with pytest.raises(StorageError, match="file") as raised:
            own.read(join(place, "file"))
        assert raised.value.passing and not isinstance(raised.value, NotFoundError)
        token.write_text("second")
        assert own.read(join(place, "file")) == b"content"
    assert {"first", "second"} == {*tokens.seen}
