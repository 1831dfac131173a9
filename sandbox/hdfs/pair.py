"""A real HDFS with an active and a standby NameNode: `with HdfsPair(folder) as pair: pair.uri`."""

import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sandbox.harness.ports import free_ports
from sandbox.harness.wait import wait_until
from sandbox.hdfs.server import START_SECONDS, HdfsServer, write_properties

NAME = "pair"
NODES = ("nn1", "nn2")


class HdfsPair(HdfsServer):
    """Two NameNodes, which share their edits by a folder, and one DataNode. Clients know them as `hdfs://pair`.

    The first is active until `fail_over`. Nothing fences the other one, so `fail_over` kills it.
    """

    def __init__(self, folder: Path) -> None:
        self._addresses = {node: tuple(f"127.0.0.1:{port}" for port in free_ports(2)) for node in NODES}
        self.active, self.standby = NODES
        super().__init__(folder, properties=self._of_pair(folder))

    @property
    def uri(self) -> str:
        """The name service."""
        return f"hdfs://{NAME}"

    def address(self, node: str) -> str:
        """Host and port of a NameNode."""
        return self._addresses[node][0]

    def start(self) -> None:
        """Start what does not run, with an empty file system the first time, and return when files can be written."""
        self._configure()
        if first := not (self.folder / NODES[0]).exists():
            format_ = self._command(NODES[0], "-format", "-force", "-nonInteractive")
            subprocess.run(format_, check=True, capture_output=True)
            shutil.copytree(self.folder / NODES[0], self.folder / NODES[1])
        for role in (*NODES, "DataNode"):
            self._start(role)
        if first:
            self._activate(self.active)
        wait_until(self._serves, timeout=START_SECONDS, what="HDFS to serve")

    def fail_over(self) -> None:
        """Kill the active NameNode, if it runs, and return when the other is active. `start` brings the first back."""
        if self.active in self._processes:
            self.kill(self.active)
        self.active, self.standby = self.standby, self.active
        self._activate(self.active)
        wait_until(self._serves, timeout=START_SECONDS, what="the other NameNode to serve")

    def configure_client(self, folder: Path, addresses: Mapping[str, str]) -> Path:
        """Write the configuration of a client that knows NameNodes under other addresses; return its folder."""
        folder.mkdir()
        shutil.copy(self.configuration / "core-site.xml", folder)
        known = {_rpc(node): address for node, address in addresses.items()}
        write_properties(folder / "hdfs-site.xml", {**self._of_pair(self.folder), **known})
        return folder

    def _activate(self, node: str) -> None:
        wait_until(lambda: self._listens(node), timeout=START_SECONDS, what=f"{node} to listen")
        self._tool("org.apache.hadoop.hdfs.tools.DFSHAAdmin", "-transitionToActive", "--forceactive", node)
        self._ports["http"] = int(self._addresses[node][1].rpartition(":")[2])

    def _listens(self, node: str) -> bool:
        if (ended := self._processes[node].poll()) is not None:
            raise RuntimeError(f"{node} has ended with {ended}; see {self.folder / node}.log")
        host, _, port = self.address(node).partition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=5):
            return True
        return False

    def _command(self, role: str, *arguments: str) -> list[str]:
        if role not in NODES:
            return super()._command(role, *arguments)
        return super()._command("NameNode", "-D", f"dfs.ha.namenode.id={role}", *arguments)

    def _of_pair(self, folder: Path) -> dict[str, str]:
        """Return the properties by which NameNodes and clients know the pair."""
        of_nodes = (
            {_rpc(node): rpc for node, (rpc, _) in self._addresses.items()}
            | {f"dfs.namenode.http-address.{NAME}.{node}": http for node, (_, http) in self._addresses.items()}
            | {f"dfs.namenode.name.dir.{NAME}.{node}": str(folder / node) for node in NODES}
        )
        return of_nodes | {
            "dfs.nameservices": NAME,
            f"dfs.ha.namenodes.{NAME}": ",".join(NODES),
            "dfs.namenode.shared.edits.dir": f"file://{folder}/edits",
            "dfs.ha.fencing.methods": "shell(true)",
            "dfs.ha.tail-edits.period": "1",
            f"dfs.client.failover.proxy.provider.{NAME}": (
                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
            ),
        }


def _rpc(node: str) -> str:
    return f"dfs.namenode.rpc-address.{NAME}.{node}"
