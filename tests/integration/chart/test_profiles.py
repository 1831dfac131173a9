"""Profiles for real clusters: what Helm makes of them, and what a real API server says to the Jobs and pods."""

import copy
import json
import re
import subprocess
from typing import Any

import pytest
import yaml
from sandbox.harness.chart import CHART
from sandbox.plane.control import binaries

from compaction_operator.api.config import OperatorConfig, SparkProfile
from compaction_operator.api.placement import OWN_PATHS
from compaction_operator.api.request import JobRequest
from compaction_operator.controller.kube.job import job_manifest
from compaction_operator.driver.spark import EXECUTOR_CONTAINER, executor_template
from tests.support.profiles import EVERYTHING
from tests.unit.driver.support import REQUEST

from .conftest import RELEASE, SYSTEM, TENANT, Cluster, require_classes, require_within, values
from .test_rendered import configuration, rendered

PAGE = CHART.parents[1] / "docs" / "profiles.md"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}


def examples() -> dict[str, Any]:
    """Return the profiles of all of the page's examples, as values."""
    texts = re.findall(r"^```yaml\n(profiles:\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return {"profiles": [profile for text in texts for profile in yaml.safe_load(text)["profiles"]]}


def request_of(profile: SparkProfile) -> JobRequest:
    return REQUEST.model_copy(update={"namespace": TENANT, "profile": profile})


def profiles() -> list[SparkProfile]:
    """Return those of the page's examples, and one with everything."""
    config = configuration(rendered({**values(TENANT), **examples()}))
    return [*config.profiles, SparkProfile(name="everything", image="none", **EVERYTHING)]


def accepted(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return an object as the API server would store it. It refuses fields that it does not know."""
    how = ("create", "--dry-run=server", "--validate=strict", "-n", TENANT, "-o", "json", "-f", "-")
    found: dict[str, Any] = json.loads(cluster.plane.kubectl(*how, stdin=json.dumps(manifest)))
    return found


def pods(request: JobRequest) -> list[dict[str, Any]]:
    """Return the pods of a driver and of an executor, whose image and name Spark sets."""
    driver = {"apiVersion": "v1", "kind": "Pod", **job_manifest(request, ttl=1.0)["spec"]["template"]}
    executor = copy.deepcopy(executor_template(request))
    (container,) = executor["spec"]["containers"]
    assert container["name"] == EXECUTOR_CONTAINER
    container["image"] = request.profile.image
    for pod in (driver, executor):
        pod["metadata"] = {**pod["metadata"], "name": "p"}
    return [driver, executor]


@pytest.fixture
def restricted(installed: Cluster) -> Cluster:
    """The namespace lets in only pods of the restricted standard."""
    require_classes(installed)
    installed.plane.kubectl("label", "namespace", TENANT, RESTRICTED, "--overwrite")
    for profile in examples()["profiles"]:
        name = profile.get("priorityClassName")
        if name and not installed.plane.kubectl("get", "priorityclass", name, "--ignore-not-found", "-o", "name"):
            installed.plane.kubectl("create", "priorityclass", name, "--value=-10")
    return installed


def test_the_api_server_takes_jobs_and_pods_of_each_profile(restricted: Cluster) -> None:
    """With each field as it is, and under the restricted Pod Security Standard."""
    for profile in profiles():
        request = request_of(profile)
        job = job_manifest(request, ttl=600.0)
        job["metadata"]["ownerReferences"][0]["uid"] = "00000000-0000-0000-0000-000000000000"
        for manifest in (job, *pods(request)):
            require_within(manifest, accepted(restricted, manifest), f"{profile.name}: {manifest['kind']}")


def test_the_charts_pull_secrets_reach_drivers_and_executors(restricted: Cluster) -> None:
    """By the account that both run as. A profile's own ones stand in their place."""
    given = {**values(TENANT), "imagePullSecrets": ["registry"]}
    done = restricted.upgrade(RELEASE, namespace=SYSTEM, values=given)
    assert done.returncode == 0, done.stderr
    for own, expected in (((), "registry"), (("mirror",), "mirror")):
        profile = SparkProfile(name="x", image="none", image_pull_secrets=own)
        for pod in pods(request_of(profile)):
            assert accepted(restricted, pod)["spec"]["imagePullSecrets"] == [{"name": expected}]


def test_everything_reaches_the_configuration() -> None:
    made = configuration(rendered({"profiles": [{"name": "everything", **EVERYTHING}]})).profiles[0]
    assert made == SparkProfile(name="everything", image=made.image, **EVERYTHING)


def mounted(path: str, **more: Any) -> dict[str, Any]:
    return {
        "volumes": [{"name": "more", "emptyDir": {}}],
        "volumeMounts": [{"name": "more", "mountPath": path}],
        **more,
    }


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        ({"labels": {"spark-role": "x"}}, "profile spot: labels: spark-role is the operator's own"),
        (
            {"driver": {"annotations": {"batch.kubernetes.io/x": "7"}}},
            "profile spot: driver.annotations: batch.kubernetes.io/x is the operator's own",
        ),
        ({"env": [{"name": "SPARK_HOME", "valueFrom": SECRET}]}, "profile spot: env: SPARK_HOME is the operator's own"),
        ({"env": [{"name": "A", "value": "plain"}]}, "env"),
        ({"env": [{"name": "A", "valueFrom": SECRET}] * 2}, "profile spot: env: two have A"),
        ({"volumes": [{"name": "tmp", "emptyDir": {}}]}, "profile spot: volumes: tmp is the operator's own"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "volumes"),
        ({"volumes": [{"name": "a", "emptyDir": {}}] * 2}, "profile spot: volumes: two have a"),
        ({"volumeMounts": [{"name": "a", "mountPath": "/a"}]}, "volumeMounts: a is none of the profile's volumes"),
        (mounted("/a/../w"), "volumeMounts: mountPath /a/../w: write it without . and .."),
        (mounted("/w/db/"), "volumeMounts: mountPath /w/db and /w of warehouse main lie in each other"),
        *((mounted(f"{path}/x"), f"mountPath {path}/x and {path} of the operator's image") for path in OWN_PATHS),
    ],
)  # fmt: skip
def test_helm_refuses_what_the_operator_would_not_start_with(profile: dict[str, Any], says: str) -> None:
    """Else the controllers of an upgrade would not start, after the old ones have ended."""
    claim = {"volume": {"claimName": "w", "mountPath": "/w"}}
    given: dict[str, Any] = {
        "warehouses": [{**values(TENANT)["warehouses"][0], **claim}],
        "profiles": [{"name": "spot", **profile}],
    }
    with pytest.raises(ValueError, match=r"spot|profiles"):
        OperatorConfig.model_validate({**given, "profiles": [{"image": "i", **given["profiles"][0]}]})
    command = [str(binaries() / "helm"), "template", RELEASE, str(CHART), "--values", "-"]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert says in done.stderr
