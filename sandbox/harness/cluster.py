"""kubectl, helm and our own command as functions: each call answers or raises with what the command said."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

CALL_TIMEOUT = 120.0


class CommandError(RuntimeError):
    """A command that ended with another exit code than 0, with its last words."""


class Cluster:
    """One cluster, as the environment (PATH, KUBECONFIG) says."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**os.environ, **environment}

    def kubectl(self, *arguments: str, stdin: str | bytes | None = None, timeout: float = CALL_TIMEOUT) -> str:
        """Return what kubectl prints; raises CommandError, and subprocess.TimeoutExpired."""
        return self._run(["kubectl", *arguments], stdin, timeout)

    def helm(self, *arguments: str, stdin: str | None = None, timeout: float = CALL_TIMEOUT) -> str:
        """Return what helm prints; raises CommandError, and subprocess.TimeoutExpired."""
        return self._run(["helm", *arguments], stdin, timeout)

    def operator(self, *arguments: str) -> str:
        """Return what `compaction-operator` prints; raises CommandError, and subprocess.TimeoutExpired."""
        program = [sys.executable, "-c", "from compaction_operator.cli import main; main()"]
        return self._run([*program, *arguments], None, CALL_TIMEOUT)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a kubectl that stays; its standard output is a pipe."""
        return subprocess.Popen(
            ["kubectl", *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create the objects, or make them what they are here."""
        bundle = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(bundle))

    def get(self, kind: str, name: str, *, namespace: str) -> dict[str, Any] | None:
        """Return an object, or None when there is none of that name."""
        text = self.kubectl("get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def get_all(self, kind: str, *, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Return all objects of a kind in a namespace, those with certain labels when a selector is given."""
        text = self.kubectl("get", kind, "-n", namespace, "-l", selector, "-o", "json")
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    def _run(self, command: Sequence[str], stdin: str | bytes | None, timeout: float) -> str:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            command,
            env=self._environment,
            input=data if data is not None else b"",
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            words = " ".join(done.stderr.decode(errors="replace").split())
            raise CommandError(f"{' '.join(command[:4])}: {words[-2000:] or f'exit code {done.returncode}'}")
        return done.stdout.decode(errors="replace")
