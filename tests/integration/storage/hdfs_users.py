"""Connections to an HDFS under test."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from hdfs_native import Client
from sandbox.hdfs.server import HdfsServer

from compaction_operator.api.stores import Hdfs, KerberosLogin
from compaction_operator.storage import hdfs_client
from compaction_operator.storage.hdfs import HdfsStorage, connect

TIMEOUT_SECONDS = 60.0


def after_first_failure(monkeypatch: pytest.MonkeyPatch, repair: Callable[[], None]) -> None:
    """Call `repair` when a call to HDFS has failed once, and before it is repeated."""

    def pauses() -> Iterator[float]:
        yield 0.01
        repair()
        while True:
            yield 0.01

    monkeypatch.setattr(hdfs_client, "_pauses", pauses)


@dataclass
class Hadoop:
    """An HDFS, and who its superuser is."""

    server: HdfsServer
    principal: str | None = None
    keytab: Path | None = None

    @cached_property
    def storage(self) -> HdfsStorage:
        """The file system, as its superuser sees it."""
        return self.connect()

    @cached_property
    def client(self) -> Client:
        """The library itself, for what no storage does. Only without Kerberos."""
        return Client(self.server.uri, None, str(self.server.configuration))

    def connect(
        self, principal: str | None = None, keytab: Path | None = None, *, timeout: float = TIMEOUT_SECONDS
    ) -> HdfsStorage:
        """Return a storage with connections of its own, as the superuser or as another principal."""
        name, file = principal or self.principal, keytab or self.keytab
        login = KerberosLogin(client_principal=name, keytab=str(file)) if name else None
        settings = Hdfs(config_map="", mount_path=str(self.server.configuration), kerberos=login)
        return connect("hdfs", self.server.uri.removeprefix("hdfs://"), settings, timeout=timeout)
