"""A Kubernetes control plane without a node: etcd, API server and controller manager on free ports of the loopback."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import kubernetes

from sandbox.harness.ports import free_ports
from sandbox.harness.wait import wait_until
from sandbox.plane.processes import Program

CLUSTER = Path(__file__).parents[1] / "cluster"
START_SECONDS = 60.0
CONTROLLERS = (
    "job-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "ttl-after-finished-controller",
)
SERVICE_CIDR = "10.79.0.0/24"
ISSUER = "https://kubernetes.default.svc.cluster.local"


@cache
def binaries() -> Path:
    """Return the folder of Kubernetes' programs, in the user's cache; they are built when they are not there."""
    done = subprocess.run([CLUSTER / "binaries.sh"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip().splitlines()[-1])


class ControlPlane:
    """Its certificates, data and logs lie in `folder`; it ends with `stop` or with the thread that started it.

    `audited` is a user whose requests are logged in `audit_log`, one JSON object a line.
    """

    def __init__(self, folder: Path, *, controllers: Sequence[str] = CONTROLLERS, audited: str | None = None) -> None:
        self._folder = folder
        self._audited = audited
        self.audit_log = folder / "audit.log"
        self._controllers = controllers
        self._state = folder / "compaction-operator" / "state"
        self._keys = self._state / "pki"
        self._etcd, self._backup = folder / "etcd", folder / "etcd-backup"
        self._programs: list[Program] = []
        self._api_server: Program | None = None
        self._etcd_port, self._peer_port, self.port = free_ports(3)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._state / "admin.kubeconfig"

    @property
    def authority(self) -> Path:
        """The certificate by which clients know the API server."""
        return self._keys / "ca.crt"

    def launch(self) -> None:
        """Start store and API server; `await_ready` goes on from there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # The sandbox's script makes its folders below the user's cache, so it is given one of its own.
        environment = {**os.environ, "XDG_CACHE_HOME": str(self._folder)}
        subprocess.run([CLUSTER / "certificates.sh", str(self.port)], check=True, capture_output=True, env=environment)
        self._start_etcd()
        self._start_api_server()

    def await_ready(self) -> None:
        """Wait until the API server serves, then start its controllers; raises RuntimeError when a program has ended.

        NB: not before: they wait for it for 10 seconds only.
        """
        wait_until(self._ready, timeout=START_SECONDS, what="the API server", poll=0.1)
        if self._controllers:
            self._start_controllers()

    def stop(self) -> None:
        """Kill all programs; the data goes with the folder."""
        while self._programs:
            self._programs.pop().stop()

    def back_up(self) -> None:
        """Keep a copy of etcd's data, for `restore`; meanwhile all programs are down."""
        self._begin_again(self._etcd, self._backup)

    def restore(self) -> None:
        """Begin again with etcd's data of the last `back_up`: its revisions go back, as after a disaster."""
        self._begin_again(self._backup, self._etcd)

    def pause_api_server(self) -> None:
        """Let it give no answer until `resume_api_server`."""
        if self._api_server:
            self._api_server.pause()

    def resume_api_server(self) -> None:
        """Let it answer again."""
        if self._api_server:
            self._api_server.resume()

    def client(self) -> kubernetes.client.ApiClient:
        """Return a client with the administrator's rights."""
        return kubernetes.config.new_client_from_config(str(self.kubeconfig))

    def kubectl(self, *arguments: str, stdin: str | None = None, quiet: bool = False) -> str:
        """Return what kubectl prints, its errors left out if `quiet`; raises subprocess.CalledProcessError."""
        command = [str(binaries() / "kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        errors = subprocess.DEVNULL if quiet else None
        return subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=errors, text=True, check=True).stdout

    def create(self, *objects: dict[str, Any]) -> None:
        """Create objects."""
        self.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def stored(self, group: str) -> dict[str, Any]:
        """Return the objects of a group of custom resources as etcd has them, by their keys."""
        first, last = (base64.b64encode(f"/registry/{group}{end}".encode()).decode() for end in "/0")
        asked = json.dumps({"key": first, "range_end": last}).encode()
        with urlopen(f"http://127.0.0.1:{self._etcd_port}/v3/kv/range", data=asked) as answer:
            found = json.load(answer).get("kvs", ())
        plain = ((base64.b64decode(one["key"]).decode(), base64.b64decode(one["value"])) for one in found)
        return {key: json.loads(value) for key, value in plain}

    def _start(self, name: str, *arguments: str) -> Program:
        command = [str(binaries() / name), *arguments]
        self._programs.append(Program(command, log=self._folder / f"{name}.log"))
        return self._programs[-1]

    def _begin_again(self, source: Path, target: Path) -> None:
        self.stop()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        self._start_etcd()
        self._start_api_server()
        self.await_ready()

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        self._start(
            "etcd",
            "--name=plane",
            f"--data-dir={self._etcd}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=plane={peer}",
        )

    def _start_api_server(self) -> None:
        self._api_server = self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            "--authorization-mode=RBAC",
            f"--client-ca-file={self._keys}/ca.crt",
            f"--tls-cert-file={self._keys}/apiserver.crt",
            f"--tls-private-key-file={self._keys}/apiserver.key",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={self._keys}/service-accounts.pub",
            f"--service-account-signing-key-file={self._keys}/service-accounts.key",
            *self._audit(),
        )

    def _audit(self) -> Sequence[str]:
        if self._audited is None:
            return ()
        policy = self._folder / "audit-policy.json"
        begun = ["RequestReceived", "ResponseStarted", "Panic"]
        rule = {"level": "Metadata", "users": [self._audited], "omitStages": begun}
        head = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
        policy.write_text(json.dumps({**head, "rules": [rule, {"level": "None"}]}))
        return f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"

    def _start_controllers(self) -> None:
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(self._controllers)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
        )

    def _ready(self) -> bool:
        if not all(program.running for program in self._programs):
            raise RuntimeError(f"a program of the control plane has ended; see the logs in {self._folder}")
        try:
            return self.kubectl("get", "--raw=/readyz", quiet=True) == "ok"
        except subprocess.CalledProcessError:
            return False
