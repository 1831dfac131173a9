"""Name services with several NameNodes, and mount tables: where a location leads by Hadoop's configuration."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from sandbox.harness.ports import free_ports
from sandbox.hdfs.server import write_properties

from compaction_operator.api.stores import Hdfs
from compaction_operator.storage import StorageError, join
from compaction_operator.storage.hdfs import HdfsStorage, connect
from tests.integration.storage.hdfs_users import Hadoop
from tests.integration.storage.rpc_proxy import Fault, RpcProxy

Configured = Callable[..., HdfsStorage]


@pytest.fixture
def hadoop(plain: Hadoop) -> Hadoop:
    return plain


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    """Connect by a core-site.xml of the test's own."""

    def connected(properties: Mapping[str, str], scheme: str, authority: str, *, timeout: float = 60.0) -> HdfsStorage:
        write_properties(tmp_path / "core-site.xml", properties)
        return connect(scheme, authority, Hdfs(config_map="hadoop", mount_path=str(tmp_path)), timeout=timeout)

    return connected


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a NameNode whose machine accepts connections and never answers."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def _name_service(first: str, second: str) -> dict[str, str]:
    return {
        "fs.defaultFS": "hdfs://warehouse",
        "dfs.nameservices": "warehouse",
        "dfs.ha.namenodes.warehouse": "nn1,nn2",
        "dfs.namenode.rpc-address.warehouse.nn1": first,
        "dfs.namenode.rpc-address.warehouse.nn2": second,
    }


def _address(hadoop: Hadoop) -> str:
    return hadoop.server.uri.removeprefix("hdfs://")


def _as(place: str, hadoop: Hadoop, uri: str) -> str:
    return place.replace(hadoop.server.uri, uri)


@pytest.mark.parametrize("authority", ["warehouse", ""], ids=["by-name", "default"])
def test_a_name_service_is_served_by_whichever_namenode_is_there(
    hadoop: Hadoop, place: str, configured: Configured, authority: str
) -> None:
    (port,) = free_ports(1)
    storage = configured(_name_service(f"127.0.0.1:{port}", _address(hadoop)), "hdfs", authority)
    there = _as(place, hadoop, f"hdfs://{authority}")
    storage.make_directory(join(there, "staged"))
    storage.publish(join(there, "staged"), join(there, "base_1"))
    assert [entry.name for entry in storage.list(there)] == ["base_1"]


def test_a_namenode_whose_machine_is_silent_does_not_keep_the_other_from_being_asked(
    hadoop: Hadoop, place: str, configured: Configured, silent: str
) -> None:
    """hdfs-native would wait for it, in each call, for as long as TCP does. Some calls may fail; soon they succeed."""
    storage = configured(_name_service(silent, _address(hadoop)), "hdfs", "warehouse", timeout=2)
    there = _as(place, hadoop, "hdfs://warehouse")

    def answers() -> bool:
        try:
            return storage.list(there) == []
        except StorageError:
            return False

    assert any(answers() for _ in range(20))
    storage.make_directory(join(there, "made"))


def test_a_mount_table_leads_to_its_name_services(hadoop: Hadoop, place: str, configured: Configured) -> None:
    mounts = {
        "fs.viewfs.mounttable.all.link./warehouse": place,
        "fs.viewfs.mounttable.all.linkFallback": f"{hadoop.server.uri}/",
    }
    storage = configured(mounts, "viewfs", "all")
    table = "viewfs://all/warehouse"
    storage.make_directory(join(table, "staged"))
    storage.write(join(table, "staged", "bucket_00000"), b"rows")
    storage.publish(join(table, "staged"), join(table, "base_1"))
    assert hadoop.storage.read(join(place, "base_1", "bucket_00000")) == b"rows"
    (base,) = storage.list_partition(table).directories
    assert (base.name, [file.name for file in base.files]) == ("base_1", ["bucket_00000"])
    assert storage.delete_tree(join(table, "base_1")) == 4


def test_nothing_is_renamed_between_mounts(hadoop: Hadoop, place: str, configured: Configured) -> None:
    for name in ("one", "two"):
        hadoop.storage.make_directory(join(place, name))
    mounts = {
        **{f"fs.viewfs.mounttable.all.link./{name}": join(place, name) for name in ("one", "two")},
        "fs.viewfs.mounttable.all.linkFallback": f"{hadoop.server.uri}/",
    }
    storage = configured(mounts, "viewfs", "all")
    storage.make_directory("viewfs://all/one/base_1")
    with pytest.raises(StorageError, match="Cannot rename across"):
        storage.rename("viewfs://all/one/base_1", "viewfs://all/two/base_1")
    assert [entry.name for entry in storage.list("viewfs://all/one")] == ["base_1"]
    assert storage.list("viewfs://all/two") == []


def test_no_observer_is_looked_for(hadoop: Hadoop, place: str, configured: Configured) -> None:
    """Asked for its state, a NameNode that is an observer would get all listings from then on."""
    with RpcProxy(hadoop.server.uri) as proxy:
        properties = _name_service(proxy.authority, proxy.authority)
        properties["dfs.client.failover.proxy.provider.warehouse"] = (
            "org.apache.hadoop.hdfs.server.namenode.ha.ObserverReadProxyProvider"
        )
        storage = configured(properties, "hdfs", "warehouse")
        proxy.spoil("getHAServiceState", Fault.LOST)
        assert storage.list(_as(place, hadoop, "hdfs://warehouse")) == []
        assert proxy.armed
