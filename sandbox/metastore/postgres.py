"""A PostgreSQL server as a process of this machine, for a metastore that keeps its tables there."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

from sandbox.harness.ports import free_ports
from sandbox.harness.wait import wait_until

BINARIES = Path("/usr/lib/postgresql")
USER = "postgres"
DATABASE = "metastore"
START_SECONDS = 60.0
STOP_SECONDS = 20.0


class PostgresServer:
    """One server, its data in a temporary folder that goes with this object; root runs it as Debian's user postgres."""

    def __init__(self) -> None:
        # NB: not below a folder of the caller's, through which that user may have no way.
        self._folder = tempfile.TemporaryDirectory(prefix="metastore-postgres-")
        self._data = Path(self._folder.name) / "data"
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def jdbc_url(self) -> str:
        """Where the metastore's database is; user and password come on top, and any password will do."""
        return f"jdbc:postgresql://127.0.0.1:{self._port}/{DATABASE}"

    def start(self) -> None:
        """Start the server, unless it runs, and return when it answers; its database is made at the first start."""
        if self._process:
            return
        is_new = not self._data.exists()
        if is_new:
            self._initialise()
            (self._port,) = free_ports(1)  # as late as can be: nothing holds it until the server does
        # With pdeathsig it does not outlive a test run that was killed.
        command = [*_setpriv("--pdeathsig", "INT"), _program("postgres"), "-D", str(self._data)]
        command += ["-p", str(self._port), "-h", "127.0.0.1", "-k", "", "-F"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd="/", stdout=log, stderr=log, start_new_session=True)
        wait_until(self._answers, timeout=START_SECONDS, what="PostgreSQL", poll=0.05)
        if is_new:
            self._run("createdb", *self._address, DATABASE)

    def stop(self) -> None:
        """Stop the process, if it runs, and wait for its end; the data stays."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def execute(self, statement: str) -> None:
        """Run one SQL statement in the metastore's database."""
        self._run("psql", *self._address, "-d", DATABASE, "-v", "ON_ERROR_STOP=1", "-c", statement)

    @property
    def _log(self) -> Path:
        return self._data.parent / "log"

    @property
    def _address(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self._port), "-U", USER]

    def _initialise(self) -> None:
        self._data.mkdir()
        if os.geteuid() == 0:
            for folder in (self._data.parent, self._data):
                subprocess.run(["chown", USER, folder], check=True)
        self._run("initdb", "-D", str(self._data), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"PostgreSQL did not start: {self._log.read_text(errors='replace')[-2000:]}")
        return subprocess.run([_program("pg_isready"), "-q", *self._address], check=False).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        with self._log.open("ab") as log:
            command = [*_setpriv(), _program(program), *arguments]
            subprocess.run(command, cwd="/", check=True, stdout=log, stderr=log)


def _setpriv(*options: str) -> list[str]:
    """Return how to run a program as a user who may run PostgreSQL: it refuses to run as root."""
    is_root = os.geteuid() == 0
    return ["setpriv", *options, *([f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if is_root else [])]


def _program(name: str) -> str:
    """Return the path of a program of the newest PostgreSQL here: Debian keeps most of them off the PATH."""
    versions = sorted(BINARIES.iterdir(), key=lambda folder: int(folder.name))
    return str(versions[-1] / "bin" / name)
