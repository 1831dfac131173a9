"""A service or pod of the cluster at a port of this machine, by `kubectl port-forward`."""

import re
import subprocess
from types import TracebackType
from typing import Self

from sandbox.harness.cluster import Cluster
from sandbox.harness.wait import wait_until

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:([0-9]+)")


class PortForward:
    """Forwards a port of 127.0.0.1, which stays the same over restarts, to a `target` such as `service/NAME`."""

    def __init__(self, cluster: Cluster, *, namespace: str, target: str, port: int) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._target = target
        self._port = port
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self.restart()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def uri(self) -> str:
        """The address as a metastore's URI."""
        return f"thrift://127.0.0.1:{self.port}"

    def restart(self, *, timeout: float = 60.0) -> None:
        """Forward (again), to the pod that answers now: a forwarding ends with the pod it goes to."""
        wait_until(self._start, timeout=timeout, what=f"port-forward to {self._target} of {self._namespace}")

    def stop(self) -> None:
        """End the forwarding."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> bool:
        self.stop()
        self._process = self._cluster.start(
            "port-forward", "-n", self._namespace, self._target, f"{self.port or ''}:{self._port}"
        )
        assert self._process.stdout
        # NB: it prints this line once it listens, and ends without it when there is no pod to forward to.
        match = _FORWARDING.search(self._process.stdout.readline())
        if match:
            self.port = int(match[1])
        return match is not None
