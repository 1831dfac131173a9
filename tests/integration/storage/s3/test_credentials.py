"""Keys that are replaced while we run, and settings that are wrong."""

import pytest
from sandbox.s3.server import S3Server

from compaction_operator.storage import NotFoundError, StorageError, join
from compaction_operator.storage.s3 import S3Storage
from tests.integration.storage.s3.conftest import QUICK, storage_at


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
            assert not isinstance(raised.value, NotFoundError)
            assert "revoked-secret" not in str(raised.value)
    finally:
        server.credentials_file.write_text(keys)
    assert own.read(join(place, "file")) == b"content"
