"""What a Spark profile adds to pods, and what it may not touch."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from compaction_operator.api.config import OperatorConfig, SparkProfile
from compaction_operator.api.placement import OWN_KEYS, OWN_PATHS, OWN_VARIABLES, OWN_VOLUMES, PodAdditions, overlap
from compaction_operator.controller.kube.job import job_manifest
from compaction_operator.driver.spark import executor_template
from tests.support.profiles import EVERYTHING
from tests.unit.controller.test_jobs import KERBERIZED
from tests.unit.driver.support import REQUEST
from tests.unit.test_image import ROOT

SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
WAREHOUSE = {
    "name": "lake",
    "metastore": {"uris": ["thrift://m:9083"], "secret": {"name": "m", "mountPath": "/etc/hive"}},
    "namespaces": ["team"],
    "locations": ["/warehouse", "hdfs://ns/w"],
    "volume": {"claimName": "w", "mountPath": "/warehouse"},
    "stores": {"hdfs": {"configMap": "hadoop"}},
}


def config(**profile: Any) -> OperatorConfig:
    named = {"name": "spot", "image": "i", **profile}
    return OperatorConfig.model_validate({"warehouses": [WAREHOUSE], "profiles": [named]})


def mounted(path: str) -> dict[str, Any]:
    return {"volumes": [{"name": "more", "emptyDir": {}}], "volumeMounts": [{"name": "more", "mountPath": path}]}


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        ({"labels": {"compaction.dev/attempt": "7"}}, "labels: compaction.dev/attempt is the operator's own"),
        ({"labels": {"app.kubernetes.io/name": "x"}}, "labels: app.kubernetes.io/name is the operator's own"),
        ({"labels": {"spark-role": "x"}}, "labels: spark-role is the operator's own"),
        ({"labels": {"batch.kubernetes.io/x": "x"}}, "labels: batch.kubernetes.io/x is the operator's own"),
        ({"driver": {"labels": {"job-name": "x"}}}, "driver.labels: job-name is the operator's own"),
        (
            {"executor": {"annotations": {"compaction.dev/progress": "x"}}},
            "executor.annotations: compaction.dev/progress is the operator's own",
        ),
        ({"env": [{"name": "POD_UID", "valueFrom": SECRET}]}, "env: POD_UID is the operator's own"),
        ({"env": [{"name": "LD_PRELOAD", "valueFrom": SECRET}]}, "env: LD_PRELOAD is the operator's own"),
        ({"env": [{"name": "A", "valueFrom": SECRET}] * 2}, "env: two have A"),
        ({"volumes": [{"name": "warehouse", "emptyDir": {}}]}, "volumes: warehouse is the operator's own"),
        ({"volumes": [{"name": "a", "emptyDir": {}}] * 2}, "volumes: two have a"),
        ({"volumeMounts": [{"name": "a", "mountPath": "/a"}]}, "volumeMounts: a is none of the profile's volumes"),
        (mounted("/tmp/x"), "volumeMounts: mountPath /tmp/x and /tmp of the operator's image or Spark lie in each"),
        (mounted("/etc"), "volumeMounts: mountPath /etc and /etc/passwd of the operator's image or Spark lie in each"),
        (mounted("/warehouse/db/"), "volumeMounts: mountPath /warehouse/db and /warehouse of warehouse lake lie in"),
        (mounted("/etc/hadoop"), "volumeMounts: mountPath /etc/hadoop and /etc/hadoop/conf of warehouse lake lie in"),
        (mounted("/etc/hive"), "volumeMounts: mountPath /etc/hive and /etc/hive of warehouse lake lie in each other"),
    ],
)  # fmt: skip
def test_nothing_of_the_operators_is_overridden(profile: dict[str, Any], says: str) -> None:
    """The message names the profile and the key. Paths beside these are free."""
    with pytest.raises(ValidationError, match=re.escape(f"profile spot: {says}")):
        config(**profile)


def test_what_is_beside_the_operators_own_is_free() -> None:
    config(**mounted("/warehouse2"), env=[{"name": "AWS_PROFILE", "valueFrom": SECRET}])
    config(**mounted("/etc/hive-extra"), labels={"team": "x", "app.kubernetes.io/part-of": "lake"})


@pytest.mark.parametrize(
    ("profile", "field"),
    [
        ({"env": [{"name": "A", "value": "secret"}]}, "env.0.value"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "give one of secretKeyRef and configMapKeyRef"),
        ({"env": [{"name": "A", "valueFrom": SECRET | {"configMapKeyRef": {"name": "n", "key": "k"}}}]}, "give one of"),
        ({"env": [{"name": "A-B", "valueFrom": SECRET}]}, "env.0.name"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "volumes.0.hostPath"),
        ({"volumes": [{"name": "a"}]}, "volume a must have one source"),
        ({"volumes": [{"name": "a", "emptyDir": {}, "secret": {}}]}, "volume a must have one source"),
        (mounted("/a/../warehouse"), "write it without . and .."),
        (mounted("/a:b"), "volumeMounts.0.mountPath"),
        (mounted("/"), "volumeMounts.0.mountPath"),
        ({"labels": {"a b": "x"}}, "labels"),
        ({"labels": {"a": "not valid!"}}, "labels.a"),
        ({"driver": {"env": []}}, "driver.env"),
        ({"imagePullSecrets": ["A"]}, "imagePullSecrets.0"),
    ],
)
def test_what_kubernetes_or_the_operator_would_not_take_is_refused(profile: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(field)):
        config(**profile)


def test_the_operators_own_names_are_those_that_its_pods_have() -> None:
    """A label, variable, volume or path that a pod gets in future must be among those that are refused."""
    request = REQUEST.model_copy(update={"warehouse": KERBERIZED})
    job, executor = job_manifest(request, ttl=1.0), executor_template(request)
    pods = job["spec"]["template"], executor
    for metadata in (job["metadata"], *(pod["metadata"] for pod in pods)):
        for key in (*metadata["labels"], *metadata["annotations"]):
            assert re.search(OWN_KEYS, key), key
    for spec in (pod["spec"] for pod in pods):
        (container,) = spec["containers"]
        assert not [one["name"] for one in container["env"] if not re.search(OWN_VARIABLES, one["name"])]
        assert {one["name"] for one in spec["volumes"]} <= set(OWN_VOLUMES)
    known = dict(KERBERIZED.mounts())
    assert all(one["mountPath"] in {*known, *OWN_PATHS} for one in pods[0]["spec"]["containers"][0]["volumeMounts"])


def test_the_images_own_variables_and_folders_are_refused() -> None:
    text = (ROOT / "operator" / "Dockerfile").read_text()
    variables = re.findall(r"(\w+)=(\S+)", " ".join(re.findall(r"^ENV (.*)$", text, re.MULTILINE)))
    assert {"SPARK_HOME", "PYTHONPATH"} <= {name for name, _ in variables}
    assert not [name for name, _ in variables if not re.search(OWN_VARIABLES, name)]
    folders = [value for _, value in variables if value.startswith("/")]
    assert all(any(overlap(folder, own) for own in OWN_PATHS) for folder in folders)


def test_a_role_adds_to_what_both_have() -> None:
    """Its keys and values prevail, its lists are appended."""
    both = {"nodeSelector": {"zone": "a", "pool": "x"}, "tolerations": [{"key": "a"}], "priorityClassName": "low"}
    driver = {"nodeSelector": {"pool": "on-demand"}, "tolerations": [{"key": "b"}], "priorityClassName": "high"}
    profile = PodAdditions.model_validate({**both, "driver": driver})
    assert profile.of_driver.pod_fields() == {
        "nodeSelector": {"zone": "a", "pool": "on-demand"},
        "tolerations": [{"key": "a"}, {"key": "b"}],
        "priorityClassName": "high",
    }
    assert profile.of_executor.pod_fields() == both


def pod_of(role: str) -> dict[str, Any]:
    request = REQUEST.model_copy(update={"profile": SparkProfile(name="x", image="i", **EVERYTHING)})
    pod: dict[str, Any] = (
        job_manifest(request, ttl=1.0)["spec"]["template"] if role == "driver" else executor_template(request)
    )
    return pod


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_everything_reaches_the_pods_of_both(role: str) -> None:
    pod = pod_of(role)
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    for name in ("affinity", "topologySpreadConstraints", "priorityClassName", "schedulerName", "runtimeClassName"):
        assert spec[name] == EVERYTHING[name]
    assert spec["nodeSelector"] == {"pool": "batch", **EVERYTHING[role]["nodeSelector"]}
    assert spec["tolerations"] == [*EVERYTHING["tolerations"], *EVERYTHING[role].get("tolerations", [])]
    assert spec["imagePullSecrets"] == [{"name": "mirror"}]
    assert [one for one in spec["volumes"] if one["name"] == "more"] == EVERYTHING["volumes"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "more"]
    assert mount == {"name": "more", "mountPath": "/etc/more", "readOnly": True}
    variables = {one["name"]: one.get("valueFrom") for one in container["env"]}
    assert variables["FROM_SECRET"] == {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}
    assert variables["FROM_CONFIG"] == {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == role
    assert pod["metadata"]["labels"]["team"] == "lake"
    assert pod["metadata"]["annotations"]["example.com/cost"] == "42"


def test_a_queues_label_is_on_the_job_itself() -> None:
    """Kueue looks at the Job's. That of the driver alone is not on executors, for which Kueue would count pods."""
    request = REQUEST.model_copy(update={"profile": SparkProfile(name="x", image="i", **EVERYTHING)})
    metadata = job_manifest(request, ttl=1.0)["metadata"]
    assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == "nightly"
    assert metadata["annotations"]["example.com/cost"] == "42"
    assert metadata["annotations"]["compaction.dev/compaction"] == REQUEST.name
    assert "kueue.x-k8s.io/queue-name" not in executor_template(request)["metadata"]["labels"]


def fields(schema: dict[str, Any]) -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        yield from (name, *fields(part), *fields(part.get("items", {})))


@pytest.mark.parametrize("kind", ["tablecompactions", "compactionpolicies"])
def test_none_of_it_comes_from_a_resource(kind: str) -> None:
    """Who may create one must not choose nodes, secrets or queues of the administrator's."""
    crd = yaml.safe_load((ROOT / "crds" / f"compaction.dev_{kind}.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    additions = PodAdditions.model_json_schema()["properties"].keys() - {"driver"}
    assert not additions & set(fields(spec))
