"""Puts the operator's own chart onto the plane: resources, roles, service accounts and configuration, no Deployment."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes
import yaml

from sandbox.harness.chart import CHART, RELEASE
from sandbox.harness.namespaces import restricted_namespace
from sandbox.harness.settings import WAREHOUSE
from sandbox.harness.wait import wait_until
from sandbox.plane.control import ControlPlane, binaries

SYSTEM_NAMESPACE = "compaction-system"
NAMESPACE = "plane"
CONTROLLER_ACCOUNT = RELEASE
DRIVER_ACCOUNT = "compaction-driver"
NOT_RUN_HERE = frozenset({"Deployment", "ConfigMap"})
LOOPBACK = dict.fromkeys(("spark.driver.bindAddress", "spark.driver.host"), "127.0.0.1")
TOKEN_SECONDS = 24 * 3600
ESTABLISHED_SECONDS = 30.0


@dataclass(frozen=True)
class Installed:
    """Where the controller finds its configuration, and each of the two its token; the controller's environment.

    `later` is what the chart has for namespaces of the warehouse that do not exist.
    """

    config: Path
    controller_environment: Mapping[str, str]
    controller_secrets: Path
    driver_secrets: Path
    later: Sequence[dict[str, Any]]


def install(plane: ControlPlane, *, warehouse: Mapping[str, Any], folder: Path, values: Mapping[str, Any]) -> Installed:
    """Install the chart for one warehouse, `main`; `values` are more of the chart's, as they are written in YAML."""
    objects = _rendered(_values(warehouse, values))
    plane.create(restricted_namespace(SYSTEM_NAMESPACE), restricted_namespace(NAMESPACE))
    made = [one for one in objects if one["kind"] not in NOT_RUN_HERE]
    later = [one for one in made if one["metadata"].get("namespace", NAMESPACE) not in (SYSTEM_NAMESPACE, NAMESPACE)]
    plane.create(*(one for one in made if one not in later))
    (configuration,) = (one for one in objects if one["kind"] == "ConfigMap")
    config = folder / "config.yaml"
    # NB: planes share a machine, so none may take the metrics' port. All processes have the volumes at their paths.
    own = {"metrics": {"enabled": False}, "volumesPath": None}
    settings = yaml.safe_load(configuration["data"]["config.yaml"]) | own
    config.write_text(yaml.safe_dump(settings))
    crds = [one["metadata"]["name"] for one in objects if one["kind"] == "CustomResourceDefinition"]
    plane.kubectl("wait", "--for=condition=Established", f"--timeout={ESTABLISHED_SECONDS:g}s", "crd", *crds)
    return Installed(
        config=config,
        controller_environment=_controller_environment(objects),
        controller_secrets=_secrets(plane, SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT, folder),
        driver_secrets=_secrets(plane, NAMESPACE, DRIVER_ACCOUNT, folder),
        later=later,
    )


def _values(warehouse: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "warehouses": [{"name": WAREHOUSE, "namespaces": [NAMESPACE], **warehouse}],
        # There is no node to run executors on.
        "profiles": [{"name": "default", "sparkConf": LOOPBACK, "maxAutoExecutors": 0}],
        "cleanup": {"interval": "500ms"},
        # A test that starts a controller again does not wait for a lease.
        "replicas": 1,
        "leaderElection": {"enabled": False},
        **more,
    }


def _rendered(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    command = [str(binaries() / "helm"), "template", RELEASE, str(CHART), "--namespace", SYSTEM_NAMESPACE]
    done = subprocess.run(
        [*command, "--skip-tests", "--values", "-"],
        input=json.dumps(values),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    # NB: the C loader, as the resource definitions are long.
    return [one for one in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if one]


def _controller_environment(objects: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what the chart's Deployment gives the controller."""
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container.get("env", ())}


def _secrets(plane: ControlPlane, namespace: str, account: str, folder: Path) -> Path:
    """Return a folder with a token of the account, as a kubelet would mount it."""
    core = kubernetes.client.CoreV1Api(plane.client())
    body = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
    token = wait_until(
        lambda: core.create_namespaced_service_account_token(account, namespace, body).status.token,
        timeout=ESTABLISHED_SECONDS,
        what=f"a token for {account}",
    )
    secrets = folder / f"secrets-{account}"
    secrets.mkdir()
    (secrets / "token").write_text(token)
    (secrets / "ca.crt").write_bytes(plane.authority.read_bytes())
    (secrets / "namespace").write_text(namespace)
    return secrets
