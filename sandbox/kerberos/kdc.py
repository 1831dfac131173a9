"""Starts and stops a real KDC: `with Kdc(folder) as kdc: kdc.keytab("hdfs/localhost")`."""

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sandbox.harness.ports import free_ports
from sandbox.harness.server import Server
from sandbox.harness.wait import wait_until
from sandbox.plane.processes import Program

REALM = "COMPACTION.TEST"
START_SECONDS = 30.0
_SYSTEM = ("/usr/sbin", "/usr/local/sbin")  # where Debian has the KDC; not on the PATH of each user

_CLIENT = """[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  default_ccache_name = FILE:{folder}/default-cache
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
"""
_SERVER = """[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principals
    key_stash_file = {folder}/stash
    acl_file = {folder}/acl
  }}
[logging]
  kdc = FILE:{folder}/requests.log
"""


class Kdc(Server):
    """One realm; database, configuration, keytabs and log are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._values = {"realm": REALM, "folder": folder, "port": free_ports(1)[0]}
        self._program: Program | None = None
        self.config_file = folder / "krb5.conf"
        self.default_cache = folder / "default-cache"
        """Where a client that does not say where to keep its tickets has them."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client's environment needs. NB: the libraries read it in the process itself."""
        return {"KRB5_CONFIG": str(self.config_file)}

    def start(self) -> None:
        """Start it, with an empty realm the first time, and return when it listens."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(_CLIENT.format(**self._values))
        (self._folder / "kdc.conf").write_text(_SERVER.format(**self._values))
        if not (self._folder / "stash").exists():
            self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        # NB: it reads its configuration from the environment; setpriv keeps it.
        command = ["env", *(f"{name}={value}" for name, value in self._environment().items()), "krb5kdc", "-n"]
        self._program = Program(command, log=self._folder / "kdc.log")
        wait_until(self._listens, timeout=START_SECONDS, what=f"the KDC (log: {self._folder}/kdc.log)", poll=0.05)

    def stop(self) -> None:
        """Kill it; `start` brings it back with its realm."""
        if self._program:
            self._program.stop()
        self._program = None

    def pause(self) -> None:
        """Make it hang: it accepts connections, but does not answer."""
        if self._program:
            self._program.pause()

    def resume(self) -> None:
        """End a pause."""
        if self._program:
            self._program.resume()

    def principal(self, name: str) -> str:
        """Return a name with the realm."""
        return f"{name}@{REALM}"

    def keytab(self, *names: str, max_life: str = "1h") -> Path:
        """Create principals with random keys, whose tickets are valid for `max_life`; return a keytab with the keys."""
        path = self._keytab(names[0])
        for name in names:
            self._run("kadmin.local", "-q", f'addprinc -randkey -maxlife "{max_life}" {name}')
            self._run("kadmin.local", "-q", f"ktadd -k {path} {name}")
        return path

    def renew_keytab(self, name: str) -> None:
        """Give a principal another key, and its keytab too."""
        self._run("kadmin.local", "-q", f"ktadd -k {self._keytab(name)} {name}")

    def new_key(self, name: str) -> None:
        """Give a principal another key, which no keytab has."""
        self._run("kadmin.local", "-q", f"cpw -randkey {name}")

    def logins(self, name: str) -> int:
        """Return how often a principal got a ticket by its key."""
        lines = (self._folder / "requests.log").read_text().splitlines()
        return sum(
            "AS_REQ" in line and ": ISSUE:" in line and f" {self.principal(name)} for " in line for line in lines
        )

    def _keytab(self, name: str) -> Path:
        return self._folder / f"{name.replace('/', '.')}.keytab"

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(str(self._values["port"])))) == 0

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([os.environ.get("PATH", ""), *_SYSTEM])
        return {"PATH": path, "KRB5_KDC_PROFILE": str(self._folder / "kdc.conf"), **self.environment}

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            ["env", *(f"{name}={value}" for name, value in self._environment().items()), *command],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
