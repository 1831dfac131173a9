"""Where the operator's configuration is: in a file, or in the controller's pod, in which a verb then runs."""

import fcntl
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from compaction_operator.api.config import OperatorConfig, Warehouse
from compaction_operator.cli.holders import holder_of
from compaction_operator.errors import OperatorError

IN_POD = "/etc/compaction-operator/config.yaml"
"""Where the controller's pod has its configuration."""
ALONE = ("doctor", "plan")
"""The verbs that run there one at a time."""


class NotRunInPodError(OperatorError):
    """A verb could not be run in the controller's pod."""


class BusyError(OperatorError):
    """Another verb runs in the controller's pod."""


def local_file(given: str | None) -> Path | None:
    """Return the configuration that was given, or that of the controller's pod if this is one; None elsewhere."""
    if given is not None:
        return Path(given)
    return Path(IN_POD) if Path(IN_POD).exists() else None


def load(path: Path) -> OperatorConfig:
    """Return the configuration in a file. Raises ValueError, naming the file, if it is unusable, or OSError."""
    from compaction_operator.controller.app import load_config  # noqa: PLC0415 - kopf is the controller's

    return load_config(path)


@contextmanager
def alone_in_pod(path: Path) -> Iterator[None]:
    """Let one such verb at a time run in the controller's pod: it has the controller's memory limit.

    `path` is the configuration that is used; one of another place, where the limit is another one, is no concern.
    Raises BusyError if another one runs, and OSError. NB: a lock by `flock` ends with the process, however that ends.
    """
    if path != Path(IN_POD):
        yield
        return
    with path.open("rb") as config:
        try:
            fcntl.flock(config, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(_busy(os.fstat(config.fileno()).st_ino)) from error
        yield


def _busy(inode: int) -> str:
    """Return what to do about the one that runs. NB: one that was interrupted outside goes on in the pod."""
    known = holder_of(inode, ALONE)
    return (
        f"another {' or '.join(ALONE)} runs in the controller's pod, whose memory is the controller's, too"
        f"{f' ({known})' if known else ''}; if it was interrupted outside, it goes on there: "
        "try again when it has ended, or run it elsewhere with --config"
    )


def chosen(config: OperatorConfig, name: str | None, path: Path) -> tuple[Warehouse, ...]:
    """Return the warehouse of a name, or all. Raises ValueError, with the names that there are."""
    found = tuple(one for one in config.warehouses if name in (None, one.name))
    if not found:
        names = ", ".join(one.name for one in config.warehouses) or "none"
        raise ValueError(f"--warehouse {name}: {path} has {names}")
    return found


def run_in_pod(
    arguments: Sequence[str], *, operator: str, context: str | None, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run this program in the controller's pod by kubectl exec, with the configuration that is there.

    Raises NotRunInPodError if there is no kubectl, or if `operator` is not NAMESPACE/NAME.
    """
    namespace, slash, name = operator.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise NotRunInPodError(f"--operator {operator!r}: write NAMESPACE/SERVICE")
    command = ["kubectl", *(("--context", context) if context else ()), "exec", "-n", namespace, f"deploy/{name}"]
    command += ["--", "compaction-operator", *arguments, "--config", IN_POD]
    try:
        return subprocess.run(command, capture_output=capture, text=True, check=False)  # noqa: S603 - no shell
    except OSError as error:
        raise NotRunInPodError(f"kubectl cannot be run ({error}); without it give --config") from error
