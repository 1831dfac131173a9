"""A driver's pod and its Spark tasks reach a bucket by what the Job has of it, and nothing shows the keys."""

from pathlib import Path

import pytest
from sandbox.s3.server import S3Server

from compaction_operator.api.config import Warehouse
from compaction_operator.api.request import JobRequest
from compaction_operator.storage import join
from compaction_operator.storage.s3 import S3Storage
from tests.integration.storage.pod import read_as_pod
from tests.integration.storage.s3.conftest import PLAIN
from tests.unit.driver.support import REQUEST


def request_on(server: S3Server) -> JobRequest:
    settings = server.settings().to_json() | {"secret": {"name": "keys", "mountPath": str(server.folder)}}
    warehouse = REQUEST.warehouse.to_json() | {"locations": [f"s3a://{PLAIN}"], "stores": {"s3": settings}}
    return REQUEST.model_copy(update={"warehouse": Warehouse.model_validate(warehouse)})


@pytest.mark.parametrize(("kind", "bucket"), [("minio", PLAIN)], scope="session")
def test_driver_and_tasks_read_with_the_mounted_keys(
    server: S3Server, storage: S3Storage, place: str, tmp_path: Path
) -> None:
    """The secret's content is in no manifest, setting, log or error."""
    storage.write(file := join(place, "rows"), b"rows")
    missing = "s3a://no-such-bucket/file"
    shown = read_as_pod(request_on(server), file, missing=missing, folder=tmp_path)
    assert f"{missing}: " in shown
    assert str(server.credentials_file) in shown
    assert server.secret_key in server.credentials_file.read_text()
    assert server.secret_key not in shown
