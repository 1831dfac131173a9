"""Starts and stops a real HDFS: `with HdfsServer(folder) as server: server.uri`."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from sandbox.harness.ports import free_ports
from sandbox.harness.server import Server
from sandbox.harness.wait import wait_until

if TYPE_CHECKING:  # the plane imports this module, and the KDC the plane
    from sandbox.kerberos.kdc import Kdc

HERE = Path(__file__).parent
PACKAGE = "org.apache.hadoop.hdfs.server"
JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED")
START_SECONDS = 120.0
LIVE = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"

SERVICE = "hdfs/localhost"
"""The principal of NameNode and DataNode; Hadoop's default rules make it the user hdfs."""

_SECURE_CORE = {
    "hadoop.security.authentication": "kerberos",
    "hadoop.rpc.protection": "privacy",
}

_LOG4J = """log4j.rootLogger=WARN,A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=%d %p %c{1}: %m%n
"""


def fetch() -> Path:
    """Return the folder of the jars, in the user's cache; downloads them when they are not there."""
    done = subprocess.run([HERE / "fetch.sh"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip().splitlines()[-1])


class HdfsServer(Server):
    """One NameNode and one DataNode; data, configuration and logs are in `folder`.

    The user who starts it is HDFS's superuser; with `kdc` it requires Kerberos and encrypts all traffic, and the
    superuser is `hdfs/localhost` with the keytab `service_keytab`. `properties` are more of hdfs-site.xml. `stop` keeps
    the data.
    """

    def __init__(self, folder: Path, *, kdc: "Kdc | None" = None, properties: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._kdc = kdc
        self._properties = properties or {}
        self.configuration = folder / "conf"
        self._ports = dict(zip(("rpc", "http", "data", "ipc", "data-http"), free_ports(5), strict=True))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.service_keytab: Path | None = None

    @property
    def uri(self) -> str:
        """The address; it stays the same over restarts."""
        return f"hdfs://127.0.0.1:{self._ports['rpc']}"

    def start(self) -> None:
        """Start both, with an empty file system the first time, and return when files can be written."""
        self._configure()
        if not (self.folder / "name" / "current").exists():
            format_ = self._command("NameNode", "-format", "-force", "-nonInteractive")
            subprocess.run(format_, check=True, capture_output=True)
        for role in ("NameNode", "DataNode"):
            self._start(role)
        wait_until(self._serves, timeout=START_SECONDS, what="HDFS to serve")

    def stop(self) -> None:
        """Kill both."""
        for role in list(self._processes):
            self.kill(role)

    def kill(self, role: str) -> None:
        """Kill NameNode or DataNode at once (SIGKILL); `start` brings it back with its data."""
        process = self._processes.pop(role)
        process.kill()
        process.wait()

    def pause(self, role: str) -> None:
        """Make NameNode or DataNode hang: it accepts connections, but does not answer."""
        self._processes[role].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._processes[role].pid, os.WSTOPPED)

    def resume(self, role: str) -> None:
        """End a pause."""
        self._processes[role].send_signal(signal.SIGCONT)

    def admin(self, *arguments: str) -> None:
        """Run `hdfs dfsadmin` as the superuser (without Kerberos); raises RuntimeError with what it printed."""
        self._tool("org.apache.hadoop.hdfs.tools.DFSAdmin", *arguments)

    def shell(self, *arguments: str) -> None:
        """Run `hdfs dfs`, likewise."""
        self._tool("org.apache.hadoop.fs.FsShell", *arguments)

    def _tool(self, name: str, *arguments: str) -> None:
        command = ["java", *JAVA, "-cp", f"{self.configuration}:{fetch()}/*", name, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)

    def _start(self, role: str) -> None:
        if role in self._processes:
            return
        with (self.folder / f"{role}.log").open("ab") as log:
            command = ["setpriv", "--pdeathsig", "KILL", *self._command(role)]
            self._processes[role] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def _command(self, role: str, *arguments: str) -> list[str]:
        classpath = f"{self.configuration}:{fetch()}/*"
        kerberos = (f"-Djava.security.krb5.conf={self._kdc.config_file}",) if self._kdc else ()
        return ["java", *JAVA, *kerberos, "-Xmx256m", "-cp", classpath, f"{PACKAGE}.{role.lower()}.{role}", *arguments]

    def _serves(self) -> bool:
        for role, process in self._processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"the {role} has ended; see {self.folder / role}.log")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports['http']}{LIVE}", timeout=5) as answer:
                state = json.load(answer)["beans"][0]
        except (urllib.error.URLError, OSError, IndexError):
            return False
        # NB: a DataNode that has only registered takes no blocks before it reported its disks.
        return bool(state["NumLiveDataNodes"] and state["CapacityRemaining"] and state["FSState"] == "Operational")

    def _configure(self) -> None:
        self.configuration.mkdir(parents=True, exist_ok=True)
        (self.configuration / "log4j.properties").write_text(_LOG4J)
        address = {name: f"127.0.0.1:{port}" for name, port in self._ports.items()}
        core = {"fs.defaultFS": self.uri, "hadoop.tmp.dir": str(self.folder / "tmp")}
        hdfs = {
            "dfs.replication": "1",
            "dfs.namenode.name.dir": str(self.folder / "name"),
            "dfs.datanode.data.dir": str(self.folder / "data"),
            "dfs.namenode.rpc-address": address["rpc"],
            "dfs.namenode.http-address": address["http"],
            "dfs.datanode.address": address["data"],
            "dfs.datanode.ipc.address": address["ipc"],
            "dfs.datanode.http.address": address["data-http"],
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.acls.enabled": "true",
            "dfs.namenode.fs-limits.min-block-size": "4096",
            "dfs.namenode.safemode.extension": "0",
        }
        if self._kdc:
            core |= _SECURE_CORE
            hdfs |= self._secure(self._kdc)
        write_properties(self.configuration / "core-site.xml", core)
        write_properties(self.configuration / "hdfs-site.xml", hdfs | dict(self._properties))

    def _secure(self, kdc: "Kdc") -> dict[str, str]:
        """Return what makes NameNode and DataNode log in, and DataNodes ask for block tokens."""
        if not self.service_keytab:
            self.service_keytab = kdc.keytab(SERVICE, "HTTP/localhost")
        logins = {
            f"dfs.{role}.{name}": value
            for role in ("namenode", "datanode")
            for name, value in (
                ("kerberos.principal", kdc.principal(SERVICE)),
                ("keytab.file", str(self.service_keytab)),
            )
        }
        return logins | {
            "dfs.block.access.token.enable": "true",
            "dfs.data.transfer.protection": "privacy",
            "dfs.encrypt.data.transfer": "true",
            "dfs.encrypt.data.transfer.cipher.suites": "AES/CTR/NoPadding",
            "dfs.web.authentication.kerberos.principal": kdc.principal("HTTP/localhost"),
            "dfs.web.authentication.kerberos.keytab": str(self.service_keytab),
            "ignore.secure.ports.for.testing": "true",
        }


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """Write a configuration file of Hadoop."""
    lines = (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    )
    file.write_text(f"<configuration>{''.join(lines)}</configuration>")
