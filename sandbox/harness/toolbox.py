"""A pod that mounts the warehouse: files are brought in, listed and read through it, so that any cluster will do."""

import base64
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.harness.cluster import Cluster
from sandbox.harness.namespaces import CONTAINER_SECURITY, POD_SECURITY, WAREHOUSE_MOUNT, WAREHOUSE_VOLUME
from sandbox.harness.settings import Settings
from sandbox.harness.wait import wait_until
from sandbox.hdfs.path import HdfsPath

NAME = "toolbox"
_ROWS = Path(__file__).with_name("rows.py")
_ROOT = Path(__file__).parents[2]
_TOOLS = "/tmp/tools"  # noqa: S108 - the pod's own
_TOOL_FILES = (
    *(f"sandbox/{package}__init__.py" for package in ("", "harness/", "hdfs/")),
    *(f"sandbox/{module}.py" for module in ("harness/hdfs_tool", "harness/places", "hdfs/path")),
)
_UNPACK = 'umask 0002; mkdir -p "$1" && tar -x -f - -C "$1" --no-same-owner'


class Toolbox:
    """The pod `toolbox` of the demo's namespace; places are URIs such as file:/warehouse/demo.db/try_it, or paths."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._namespace = settings.namespace
        self._image = settings.operator_image

    def start(self, *, timeout: float = 120.0) -> None:
        """Make the pod, or a new one when the old one has another image, and wait until it runs."""
        old = self._cluster.get("pod", NAME, namespace=self._namespace)
        if old and (old["spec"]["containers"][0]["image"] != self._image or not _ready(old)):
            self.stop()
        self._cluster.apply(_manifest(self._namespace, self._image))
        wait_until(self._is_ready, timeout=timeout, what=f"pod {NAME}")

    def stop(self) -> None:
        """Remove the pod."""
        self._cluster.kubectl("delete", "pod", NAME, "-n", self._namespace, "--ignore-not-found", "--grace-period=0")

    def run(self, *command: str, stdin: str | bytes | None = None, timeout: float = 120.0) -> str:
        """Return what a command in the pod prints; raises CommandError."""
        return self._cluster.kubectl(
            "exec", "-i", "-n", self._namespace, NAME, "--", *command, stdin=stdin, timeout=timeout
        )

    def write(self, place: str, files: Mapping[str, bytes]) -> None:
        """Write files, by their path below the place, which is made; all their directories can be changed by all."""
        self.run("sh", "-c", _UNPACK, "sh", _path(place), stdin=_archive(files))

    def put(self, place: str, folder: Path) -> None:
        """Copy a folder of this machine, with the times of its files, to a place where nothing is yet."""
        self.run("sh", "-c", _UNPACK, "sh", _path(place), stdin=_archive_of(folder))

    def read(self, place: str) -> dict[str, bytes]:
        """Return all files below a place by their path there."""
        text = self.run("sh", "-c", 'tar -c -f - -C "$1" . | base64', "sh", _path(place))
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(text))) as archive:
            files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
            return {name.removeprefix("./"): file.read() for name, file in files.items() if file is not None}

    def remove(self, place: str) -> None:
        """Delete a directory with all in it."""
        self.run("rm", "-rf", _path(place))

    def names(self, place: str) -> set[str]:
        """Return the names in a directory, those that begin with a dot or underscore too."""
        return set(self.run("ls", "-A", _path(place)).split("\n")) - {""}

    def listing(self, place: str) -> str:
        """Return all files below a place with their sizes, one a line, as a person would want to read them."""
        return self.run("sh", "-c", 'cd "$1" && find . -type f -printf "%8s %P\\n" | sort -k 2', "sh", _path(place))

    def rows(self, write_ids: str, *places: str) -> list[str]:
        """Return what a reader with these valid write ids sees: each row with its ROW__ID, as JSON (see rows.py)."""
        paths = [_path(place) for place in places]
        return self.run("python3", "-", write_ids, *paths, stdin=_ROWS.read_text()).splitlines()

    def _is_ready(self) -> bool:
        pod = self._cluster.get("pod", NAME, namespace=self._namespace)
        return pod is not None and _ready(pod)


class HdfsToolbox(Toolbox):
    """The same for places on HDFS. What is read or written lies on the pod's own disk for a while."""

    def start(self, *, timeout: float = 120.0) -> None:
        """Make the pod, and bring in what copies its files."""
        super().start(timeout=timeout)
        self.bring_tools()

    def bring_tools(self) -> None:
        """Bring in the few modules that copy files."""
        super().write(_TOOLS, {name: (_ROOT / name).read_bytes() for name in _TOOL_FILES})

    def write(self, place: str, files: Mapping[str, bytes]) -> None:
        """Write files."""
        super().write(self._cleared(place), files)
        self._copy("put", _copy_of(place), place)

    def put(self, place: str, folder: Path) -> None:
        """Copy a folder of this machine; the times of its files become those of the copying."""
        super().put(self._cleared(place), folder)
        self._copy("put", _copy_of(place), place)

    def read(self, place: str) -> dict[str, bytes]:
        """Return all files below a place."""
        return super().read(self._fetched(place))

    def remove(self, place: str) -> None:
        """Delete a directory with all in it."""
        self._copy("remove", place)

    def names(self, place: str) -> set[str]:
        """Return the names in a directory."""
        return super().names(self._fetched(place))

    def listing(self, place: str) -> str:
        """Return all files below a place with their sizes."""
        return super().listing(self._fetched(place))

    def rows(self, write_ids: str, *places: str) -> list[str]:
        """Return what a reader with these valid write ids sees."""
        return super().rows(write_ids, *map(self._fetched, places))

    def _fetched(self, place: str) -> str:
        self._copy("get", place, self._cleared(place))
        return _copy_of(place)

    def _cleared(self, place: str) -> str:
        super().remove(_copy_of(place))
        return _copy_of(place)

    def _copy(self, *arguments: str) -> None:
        self.run("env", f"PYTHONPATH={_TOOLS}", "python3", "-m", "sandbox.harness.hdfs_tool", *arguments)


def toolbox_of(cluster: Cluster, settings: Settings) -> Toolbox:
    """Return the toolbox for where the tables lie."""
    return (HdfsToolbox if settings.storage == "hdfs" else Toolbox)(cluster, settings)


def _copy_of(place: str) -> str:
    return f"/tmp/hdfs{HdfsPath(place).path}"  # noqa: S108 - the pod's own


def _path(place: str) -> str:
    return "/" + place.removeprefix("file:").lstrip("/")


def _ready(pod: Mapping[str, Any]) -> bool:
    statuses = pod["status"].get("containerStatuses") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(status["ready"] for status in statuses)


def _archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o664
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _archive_of(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()


def _manifest(namespace: str, image: str) -> dict[str, Any]:
    container = {
        "name": NAME,
        "image": image,
        "command": ["sleep", "infinity"],
        "securityContext": CONTAINER_SECURITY,
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "volumeMounts": [WAREHOUSE_MOUNT],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": POD_SECURITY,
            "containers": [container],
            "volumes": [WAREHOUSE_VOLUME],
        },
    }
