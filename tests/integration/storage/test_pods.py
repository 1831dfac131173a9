"""A driver's pod and its Spark tasks reach HDFS by what the Job has of it."""

from pathlib import Path
from typing import Any

from sandbox.kerberos.kdc import Kdc

from compaction_operator.api.config import Warehouse
from compaction_operator.api.request import JobRequest
from compaction_operator.storage import join
from tests.integration.storage.hdfs_users import Hadoop
from tests.integration.storage.pod import read_as_pod
from tests.unit.driver.support import REQUEST


def request_on(hadoop: Hadoop, **settings: Any) -> JobRequest:
    stores = {"hdfs": {"configMap": "hadoop-conf", "mountPath": str(hadoop.server.configuration)} | settings}
    warehouse = REQUEST.warehouse.to_json() | {"locations": [f"{hadoop.server.uri}/"], "stores": stores}
    return REQUEST.model_copy(update={"warehouse": Warehouse.model_validate(warehouse)})


def test_driver_and_tasks_read_by_the_mounted_configuration(plain: Hadoop, tmp_path: Path) -> None:
    """Also where a location names the default file system, which only Hadoop's configuration knows."""
    plain.storage.write(f"{plain.server.uri}/rows", b"rows")
    missing = "hdfs:///no/such/file"
    shown = read_as_pod(request_on(plain), "hdfs:///rows", missing=missing, folder=tmp_path)
    assert f"{missing} does not exist" in shown


def test_driver_and_tasks_log_in_with_the_mounted_keytab(kerberized: Hadoop, kdc: Kdc, tmp_path: Path) -> None:
    """Nothing but the manifest tells them the realm, and a JVM starts beside Hadoop's configuration."""
    kerberized.storage.write(file := join(kerberized.server.uri, "rows"), b"rows")
    keytab = kdc.keytab("driver")
    before = kdc.logins("driver")
    login = {"clientPrincipal": kdc.principal("driver"), "keytab": str(keytab), "configFile": str(kdc.config_file)}
    request = request_on(kerberized, kerberos=login, secret={"name": "keys", "mountPath": str(keytab.parent)})
    shown = read_as_pod(request, file, missing=f"{file}.gone", folder=tmp_path)
    assert f"java.security.krb5.conf={kdc.config_file}" in shown
    assert kdc.logins("driver") >= before + 2
