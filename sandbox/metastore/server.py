"""Starts and stops a real Hive metastore on embedded Derby: `with MetastoreServer(folder) as server: server.uri`."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from compaction_operator.api.config import Metastore
from compaction_operator.metastore.client import MetastoreClient
from compaction_operator.metastore.errors import MetastoreError, TableNotFound

HERE = Path(__file__).parent
START_SECONDS = 120.0
STOP_SECONDS = 20.0


def fetch() -> Path:
    """Return the folder of the metastore's distribution, in the user's cache; downloads it when it is not there."""
    done = subprocess.run([HERE / "fetch.sh"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip().splitlines()[-1])


class MetastoreServer:
    """One metastore process; database, configuration and log are in `folder`, the warehouse in `folder/warehouse`."""

    def __init__(self, folder: Path, *, txn_timeout_seconds: int = 300) -> None:
        self.warehouse = folder / "warehouse"
        self.log = folder / "metastore.log"
        self._state = folder / "state"
        self._port = _free_port()
        self._txn_timeout = txn_timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The Thrift address; it stays the same over restarts."""
        return f"thrift://127.0.0.1:{self._port}"

    def settings(self, *, timeout: float = 20.0) -> Metastore:
        """Return what a client needs to know."""
        return Metastore(uris=(self.uri,), timeout=timeout)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the metastore and return when it answers; raises RuntimeError with the end of its log."""
        self.warehouse.mkdir(parents=True, exist_ok=True)
        self._state.mkdir(exist_ok=True)
        # With pdeathsig a metastore does not outlive a test run that was killed.
        command = ["setpriv", "--pdeathsig", "TERM", "bash", str(fetch() / "run.sh")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self._environment(), stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._await_answer(self._process)

    def stop(self) -> None:
        """Stop the process, if it runs, and wait for its end."""
        process, self._process = self._process, None
        if process is None:
            return
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def kill(self) -> None:
        """Kill the process at once (SIGKILL), as the machine's trouble would; `start` brings it back with its data."""
        process, self._process = self._process, None
        if process is not None:
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

    def _signal(self, number: signal.Signals) -> None:
        if self._process:
            os.killpg(self._process.pid, number)

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "STATE_DIR": str(self._state),
            "WAREHOUSE": f"file:{self.warehouse}",
            "PORT": str(self._port),
            "TXN_TIMEOUT": str(self._txn_timeout),
        }

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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
