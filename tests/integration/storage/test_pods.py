"""A driver's pod and its Spark tasks reach HDFS by what the Job has of it."""

from pathlib import Path

from sandbox.hdfs.server import HdfsServer

from compaction_operator.api.config import Warehouse
from compaction_operator.storage import join
from compaction_operator.storage.hdfs import HdfsStorage
from tests.integration.storage.pod import read_as_pod
from tests.unit.driver.support import REQUEST


def test_driver_and_tasks_read_by_the_mounted_configuration(
    hdfs_server: HdfsServer, hdfs: HdfsStorage, hdfs_place: str, tmp_path: Path
) -> None:
    """Also where a location names the default file system, which only Hadoop's configuration knows."""
    hdfs.write(join(hdfs_place, "rows"), b"rows")
    stores = {"hdfs": {"configMap": "hadoop-conf", "mountPath": str(hdfs_server.configuration)}}
    warehouse = REQUEST.warehouse.to_json() | {"locations": ["hdfs:///"], "stores": stores}
    request = REQUEST.model_copy(update={"warehouse": Warehouse.model_validate(warehouse)})
    file = f"hdfs://{join(hdfs_place, 'rows').removeprefix(hdfs_server.uri)}"
    shown = read_as_pod(request, file, missing="hdfs:///no/such/file", folder=tmp_path)
    assert "hdfs:///no/such/file does not exist" in shown
