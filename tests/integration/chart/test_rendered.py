"""What Helm makes of values, without a cluster."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

import yaml
from sandbox.harness.chart import CHART

from compaction_operator.api.config import OperatorConfig

from .conftest import RELEASE, SYSTEM, binaries

Objects = dict[tuple[str, str], dict[str, Any]]


def rendered(values: Mapping[str, Any]) -> Objects:
    """Return the objects that the chart makes, by kind and name."""
    command = [str(binaries() / "helm"), "template", RELEASE, str(CHART), "--namespace", SYSTEM, "--values", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    every = [one for one in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in every}


def configuration(objects: Objects) -> OperatorConfig:
    """Return the operator's configuration as the controller reads it."""
    text = objects["ConfigMap", f"{RELEASE}-config"]["data"]["config.yaml"]
    return OperatorConfig.model_validate(yaml.safe_load(text))


def claims(objects: Objects) -> dict[str, str]:
    """Return the claims that the controller mounts, by path."""
    pod = objects["Deployment", RELEASE]["spec"]["template"]["spec"]
    sources = {volume["name"]: volume.get("persistentVolumeClaim") for volume in pod["volumes"]}
    mounts = pod["containers"][0]["volumeMounts"]
    return {mount["mountPath"]: claim["claimName"] for mount in mounts if (claim := sources[mount["name"]])}


def warehouse(name: str, claim: str, path: str = "/warehouse") -> dict[str, Any]:
    return {
        "name": name,
        "metastore": {"uris": [f"thrift://{name}:9083"]},
        "namespaces": ["analytics"],
        "volume": {"claimName": claim, "mountPath": path},
    }


def test_two_hives_may_have_one_mount_path() -> None:
    """The usual case is /warehouse in both. The controller has each claim where it looks for its warehouse's files."""
    objects = rendered({"warehouses": [warehouse("one", "files-of-one"), warehouse("two", "files-of-two")]})
    config = configuration(objects)
    assert claims(objects) == {f"/volumes/files-of-{name}/warehouse": f"files-of-{name}" for name in ("one", "two")}
    assert set(claims(objects)) == {
        f"{config.volume_root(one)}{one.volume.mount_path}" for one in config.warehouses if one.volume
    }


def test_one_claim_is_mounted_at_each_of_its_paths_once() -> None:
    shared = [warehouse("one", "files"), warehouse("two", "files"), warehouse("three", "files", "/lake")]
    objects = rendered({"warehouses": shared})
    assert claims(objects) == {"/volumes/files/warehouse": "files", "/volumes/files/lake": "files"}
    assert configuration(objects).warehouse("three") is not None
