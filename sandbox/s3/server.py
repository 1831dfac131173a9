"""Starts and stops a real S3 server: `with S3Server(folder, kind="minio") as server: server.endpoint`."""

import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from compaction_operator.api.stores import S3Connection
from sandbox.harness.ports import free_ports
from sandbox.harness.server import Server
from sandbox.harness.wait import wait_until

HERE = Path(__file__).parent
START_SECONDS = 60.0

Kind = Literal["minio", "versitygw"]


def fetch(kind: Kind) -> Path:
    """Return the program, in the user's cache; builds it when it is not there."""
    done = subprocess.run([HERE.parent / "program.sh", f"s3/{kind}"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip().splitlines()[-1]) / kind


class S3Server(Server):
    """One server; its data, log and credentials are in `folder`. `stop` keeps the data, and `start` the address.

    MinIO may have `tls`, with a certificate that only who is given it trusts. With `versions`, versitygw's buckets can
    keep versions; MinIO's always can.
    """

    def __init__(self, folder: Path, *, kind: Kind = "minio", tls: bool = False, versions: bool = False) -> None:
        self.folder = folder
        self.certificate = folder / "certificates" / "public.crt" if tls else None
        self._versions = versions
        self.kind = kind
        self.log = folder / f"{kind}.log"
        self.credentials_file = folder / "credentials"
        self.access_key, self.secret_key = "compaction", uuid.uuid4().hex
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """The address."""
        return f"{'https' if self.certificate else 'http'}://127.0.0.1:{self._port}"

    def settings(self, *, endpoint: str | None = None) -> S3Connection:
        """Return what a client needs to know; `endpoint` is that of a proxy before the server."""
        return S3Connection(
            endpoint=endpoint or self.endpoint,
            region="us-east-1",
            path_style=True,
            ca_file=str(self.certificate) if self.certificate else None,
            credentials_file=str(self.credentials_file),
        )

    def hadoop(self, bucket: str) -> Mapping[str, str]:
        """Return what Hadoop's S3A needs to know of a bucket, and of no other."""
        properties = {
            "endpoint": self.endpoint,
            "access.key": self.access_key,
            "secret.key": self.secret_key,
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            # NB: what is written waits in memory; on disk it would go by Hadoop's own class for local files.
            "fast.upload.buffer": "array",
            # NB: versitygw's markers are directories, which it does not delete while something is below them.
            "directory.marker.retention": "keep" if self.kind == "versitygw" else "delete",
        }
        return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in properties.items()}

    def start(self) -> None:
        """Start it and return when it answers."""
        for name in ("data", "versions"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        if self.certificate and not self.certificate.exists():
            _certify(self.certificate)
        keys = f"aws_access_key_id = {self.access_key}\naws_secret_access_key = {self.secret_key}\n"
        self.credentials_file.write_text(f"[default]\n{keys}")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", str(fetch(self.kind)), *self._arguments()],
                env=os.environ | self._environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._serves, timeout=START_SECONDS, poll=0.05, what=f"{self.kind} to serve")

    def stop(self) -> None:
        """Kill it, if it runs."""
        if self._process:
            self.kill()

    def kill(self) -> None:
        """Kill it at once (SIGKILL); `start` brings it back with its data."""
        process, self._process = self._running(), None
        process.kill()
        process.wait()

    def pause(self) -> None:
        """Make it hang: it accepts connections, but does not answer."""
        self._running().send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._running().pid, os.WSTOPPED)

    def resume(self) -> None:
        """End a pause."""
        self._running().send_signal(signal.SIGCONT)

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError(f"{self.kind} does not run")
        return self._process

    def _arguments(self) -> list[str]:
        address, data = f"127.0.0.1:{self._port}", str(self.folder / "data")
        if self.kind == "minio":
            tls = ["--certs-dir", str(self.certificate.parent)] if self.certificate else []
            return ["server", "--quiet", "--address", address, *tls, data]
        versions = ["--versioning-dir", str(self.folder / "versions")] if self._versions else []
        return ["--port", address, "--quiet", "posix", *versions, data]

    def _environment(self) -> dict[str, str]:
        if self.kind == "versitygw":
            return {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        off = {"MINIO_UPDATE": "off", "MINIO_CALLHOME_ENABLE": "off", "MINIO_BROWSER": "off", "MINIO_CI_CD": "1"}
        return off | {"MINIO_ROOT_USER": self.access_key, "MINIO_ROOT_PASSWORD": self.secret_key}

    def _serves(self) -> bool:
        if self._running().poll() is not None:
            raise RuntimeError(f"{self.kind} has ended; see {self.log}")
        # NB: /minio/health/ready says yes before there is anything to make a bucket on.
        path = "/minio/health/cluster" if self.kind == "minio" else "/"
        try:
            answer = urllib.request.urlopen(f"{self.endpoint}{path}", timeout=5, context=self._trust())  # noqa: S310 - own
            with answer:
                return True
        except urllib.error.HTTPError:
            return self.kind == "versitygw"  # it refuses who does not say who they are
        except OSError:
            return False

    def _trust(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.certificate) if self.certificate else None


def _certify(certificate: Path) -> None:
    """Make a certificate for this machine, and its key beside it where MinIO looks for it."""
    certificate.parent.mkdir()
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=s3", "-days", "2"]
    files = ["-keyout", str(certificate.with_name("private.key")), "-out", str(certificate)]
    address = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*make, *files, *address], check=True, capture_output=True)
