"""All that a demo or a test needs of one cluster, put together."""

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from compaction_operator.acid.write_ids import ValidTxnList
from compaction_operator.api.config import Metastore
from sandbox.harness import namespaces
from sandbox.harness.chart import Operator
from sandbox.harness.cluster import Cluster, CommandError
from sandbox.harness.compactions import Compactions
from sandbox.harness.forward import PortForward
from sandbox.harness.reader import Reader
from sandbox.harness.settings import METASTORE_PORT, METASTORE_SERVICE, Settings
from sandbox.harness.tables import HiveTable, Writer
from sandbox.harness.toolbox import Toolbox, toolbox_of
from sandbox.metastore.admin import MetastoreAdmin


class Stage:
    """One cluster with its operator, metastore and warehouse. Nothing is made before `prepare`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cluster = Cluster(settings.environment)
        self.operator = Operator(self.cluster, settings)
        self.toolbox = toolbox_of(self.cluster, settings)
        self.compactions = Compactions(self.cluster, settings.namespace)

    def prepare(self) -> None:
        """Make namespaces and claims (and the metastore where there is none), and start the toolbox."""
        namespaces.prepare(self.cluster, self.settings)
        self.toolbox.start()

    @contextmanager
    def connect(self) -> Iterator["Warehouse"]:
        """Forward a port to the metastore, for as long as the context lasts."""
        service = {"namespace": self.settings.metastore_namespace, "target": f"service/{METASTORE_SERVICE}"}
        with (
            PortForward(self.cluster, **service, port=METASTORE_PORT) as forward,
            MetastoreAdmin(Metastore(uris=(forward.uri,))) as admin,
        ):
            yield Warehouse(admin, self.toolbox, forward, self.settings)

    def diagnosis(self) -> str:
        """Return the state of the cluster and the latest logs, to find out what went wrong."""
        namespace = self.settings.namespace
        looks = [
            ("get", "tcomp,ccl,jobs,pods", "-o", "wide", "-n", namespace),
            ("describe", "tcomp,ccl", "-n", namespace),
            ("logs", "-n", namespace, "-l", "app.kubernetes.io/component=driver", "--tail=40", "--prefix"),
            ("get", "pods", "-o", "wide", "-n", self.operator.namespace),
            ("logs", "-n", self.operator.namespace, "-l", self.operator.selector, "--tail=80"),
        ]
        return "\n".join(f"$ kubectl {' '.join(look)}\n{self._look(look)}" for look in looks)

    def _look(self, arguments: tuple[str, ...]) -> str:
        try:
            return self.cluster.kubectl(*arguments)
        except (CommandError, subprocess.TimeoutExpired) as error:
            return str(error)


class Warehouse:
    """The metastore and the files together: what writers and readers do, and what a reader would see."""

    def __init__(self, admin: MetastoreAdmin, toolbox: Toolbox, forward: PortForward, settings: Settings) -> None:
        self.admin = admin
        self.toolbox = toolbox
        self.forward = forward
        self.writer = Writer(admin, toolbox, settings)

    def reader(self, user: str) -> Reader:
        """Return a reader whose transaction is open."""
        return Reader(self.forward.uri, user).open()

    def rows(self, table: HiveTable, *, snapshot: ValidTxnList | None = None) -> list[str]:
        """Return the rows that a reader sees, with their ROW__IDs (see rows.py): one of the snapshot, or of now."""
        txns = snapshot or self.admin.valid_txns()
        write_ids = self.admin.valid_write_ids(table.database, table.name, valid_txns=txns)
        return self.toolbox.rows(str(txns), str(write_ids), *table.places)

    def abandon(self, users: Iterable[str]) -> None:
        """Abort what is left open by an earlier run that was interrupted: its readers would hold up every cleanup."""
        known = frozenset(users)
        for txn in self.admin.open_transactions().open:
            if txn.user in known:
                self.admin.abort_txn(txn.txn)
