"""Starts and stops a real Hive metastore: `with MetastoreServer(folder, hive="4.0.1") as server: server.uri`."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

from compaction_operator.api.config import Metastore
from compaction_operator.metastore import MetastoreClient, MetastoreError, TableNotFound
from sandbox.harness.places import Place, location_of
from sandbox.harness.ports import free_ports
from sandbox.harness.server import Server
from sandbox.metastore.postgres import PostgresServer

HERE = Path(__file__).parent
START_SECONDS = 120.0
STOP_SECONDS = 20.0


Hive = Literal["3.1.3", "4.0.1", "4.1.0", "4.2.0"]
Database = Literal["derby", "postgres"]

ON_S3: tuple[Hive, ...] = ("4.0.1",)
"""The versions whose tables the operator compacts on S3: 3.1.3 reads a directory from its first file on."""

CLEANER = {"metastore.compactor.cleaner.on": "true", "metastore.compactor.cleaner.run.interval": "1s"}
"""Overrides with which Hive's own Cleaner runs, too (Hive 4; 3.1.3 has it only together with the Initiator)."""

WORKER = {"metastore.compactor.worker.threads": "1"}
"""Overrides with which one of Hive's Workers compacts in the metastore's own process; it looks for work every 5 s."""

HADOOP_FILES = ("core-site.xml", "hdfs-site.xml")

FORGETTING = {"metastore.acid.txn.cleaner.interval": "1s"}
"""Properties with which a metastore (Hive 4) soon forgets an aborted transaction that has nothing left anywhere."""


def fetch(hive: Hive) -> Path:
    """Return the folder of a metastore's distribution, in the user's cache; downloads it when it is not there."""
    done = subprocess.run([HERE / "fetch.sh", hive], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip().splitlines()[-1])


class MetastoreServer(Server):
    """One metastore process; Derby, configuration and log are in `folder`.

    Tables lie in `warehouse`, by default `folder/warehouse`.
    `properties` are more of Hive's; where these want it, `address` and `connection` say how clients connect.
    `overrides` are those that have a value in `run.sh`, and other properties of Java's; `tuning` are Java's options
    that come after those of `run.sh`. `hadoop` is a folder with Hadoop's configuration, core-site.xml and
    hdfs-site.xml.
    """

    def __init__(
        self,
        folder: Path,
        *,
        hive: Hive = "3.1.3",
        database: Database = "derby",
        warehouse: Place | None = None,
        txn_timeout_seconds: int = 300,
        properties: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
        tuning: Sequence[str] = (),
        hadoop: Path | None = None,
        address: str = "thrift://127.0.0.1:{port}",
        connection: Mapping[str, Any] | None = None,
    ) -> None:
        self.hive = hive
        self.warehouse: Place = warehouse or folder / "warehouse"
        self.log = folder / "metastore.log"
        self._state = folder / "state"
        (self._port,) = free_ports(1)
        self._postgres = PostgresServer() if database == "postgres" else None
        self._txn_timeout = txn_timeout_seconds
        self._properties = properties or {}
        self._overrides = overrides or {}
        self._tuning = tuning
        self._hadoop = hadoop
        self._address = address
        self._connection = connection or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The address; it stays the same over restarts."""
        return self._address.format(port=self._port)

    @property
    def pid(self) -> int:
        """The running process."""
        assert self._process is not None
        return self._process.pid

    def settings(self, *, timeout: float = 20.0) -> Metastore:
        """Return what a client needs to know."""
        return Metastore(uris=(self.uri,), timeout=timeout, **self._connection)

    def start(self) -> None:
        """Start the metastore and return when it answers; raises RuntimeError with the end of its log."""
        self.warehouse.mkdir(parents=True, exist_ok=True)
        self._write_properties()
        if self._postgres:
            self._postgres.start()
        # With pdeathsig a metastore does not outlive a test run that was killed.
        command = ["setpriv", "--pdeathsig", "TERM", "bash", str(fetch(self.hive) / "run.sh")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self._environment(), stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._await_answer(self._process)

    def stop(self) -> None:
        """Stop the process, if it runs, and wait for its end."""
        if self._process and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        self.kill()
        if self._postgres:
            self._postgres.stop()

    def kill(self) -> None:
        """Kill the process at once (SIGKILL), as the machine's trouble would; `start` brings it back with its data."""
        process, self._process = self._process, None
        if process and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def pause(self) -> None:
        """Make it hang: it accepts connections, but does not answer."""
        self._signal(signal.SIGSTOP)
        if self._process:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # it may go on for a moment

    def resume(self) -> None:
        """End a pause."""
        self._signal(signal.SIGCONT)

    def skip_txn_id(self) -> None:
        """Use a transaction id up, as an opening does that has not ended (PostgreSQL only)."""
        if self._postgres is None:
            raise RuntimeError("only a metastore on PostgreSQL can do this")
        self._postgres.execute("SELECT nextval('\"TXNS_TXN_ID_seq\"')")

    def _signal(self, number: signal.Signals) -> None:
        if self._process:
            os.killpg(self._process.pid, number)

    def _write_properties(self) -> None:
        """Write the file that a metastore reads beside metastore-site.xml."""
        configuration = self._state / "conf"
        configuration.mkdir(parents=True, exist_ok=True)
        lines = (
            f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
            for name, value in self._properties.items()
        )
        (configuration / "hivemetastore-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
        if self._hadoop:
            for name in HADOOP_FILES:
                shutil.copy(self._hadoop / name, configuration)

    def _environment(self) -> dict[str, str]:
        own = {
            "STATE_DIR": str(self._state),
            "WAREHOUSE": location_of(self.warehouse),
            "PORT": str(self._port),
            "TXN_TIMEOUT": str(self._txn_timeout),
        }
        if self._overrides:
            # Java's own properties come before all files (MetastoreConf).
            own["JAVA_TOOL_OPTIONS"] = " ".join(f"-D{name}={value}" for name, value in self._overrides.items())
        if self._tuning:
            own["_JAVA_OPTIONS"] = " ".join(self._tuning)
        return os.environ | own | ({"POSTGRES": self._postgres.jdbc_url} if self._postgres else {})

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        with MetastoreClient(self.settings(timeout=10.0)) as client:
            while not _answers(client):
                if process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError(f"the metastore did not start: {self._end_of_log()}")
                time.sleep(0.1)

    def _end_of_log(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


def _answers(client: MetastoreClient) -> bool:
    """Whether a call that needs the database comes back: the port opens before that."""
    try:
        client.get_table("default", "no_such_table")
    except TableNotFound:
        return True
    except MetastoreError:
        return False
    return True
