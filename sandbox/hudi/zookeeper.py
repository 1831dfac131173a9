"""Starts and stops ZooKeeper, the lock provider of writer and drivers: PySpark's own jars hold its server."""

import socket
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from sandbox.harness.ports import free_ports
from sandbox.harness.wait import wait_until
from sandbox.plane.processes import Program

JARS = Path(pyspark.__file__).parent / "jars"
LOCK_KEY = "hoodie.write.lock.zookeeper.lock_key"
MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
TICK_MILLISECONDS = 1000
SESSION_MILLISECONDS = 10_000
"""How long the lock of a killed process stays. ZooKeeper allows 2 to 20 ticks."""
START_SECONDS = 60.0


class ZooKeeper:
    """One server, its data and log in `folder`; it ends with `stop`, or with the thread that started it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (self._port,) = free_ports(1)
        settings = ("-Xmx128m", "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=ruok")
        arguments = (str(self._port), str(folder / "data"), str(TICK_MILLISECONDS))
        command = ["java", *settings, "-cp", f"{JARS}/*", MAIN, *arguments]
        self._program = Program(command, log=folder / "zookeeper.log")

    def __enter__(self) -> Self:
        wait_until(self._serves, timeout=START_SECONDS, what="ZooKeeper to serve")
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._program.stop()

    def lock_options(self) -> dict[str, str]:
        """Return Hudi's options for locks of this server, all but `LOCK_KEY`, which each table has its own of.

        NB: `url` wants the port, too (BaseZookeeperBasedLockProvider hands it to Curator as it is).
        """
        return {
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
            "hoodie.write.lock.zookeeper.url": f"127.0.0.1:{self._port}",
            "hoodie.write.lock.zookeeper.port": str(self._port),
            "hoodie.write.lock.zookeeper.base_path": "/hudi",
            "hoodie.write.lock.zookeeper.session_timeout_ms": str(SESSION_MILLISECONDS),
        }

    def _serves(self) -> bool:
        if not self._program.running:
            raise RuntimeError("ZooKeeper has ended; see zookeeper.log")
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False
