"""What Helm makes of values, without a cluster."""

import copy
import json
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from sandbox.harness.chart import CHART
from sandbox.plane.control import binaries

from compaction_operator.api.config import OperatorConfig
from compaction_operator.controller.kube.job import job_manifest
from compaction_operator.driver.spark import executor_template
from compaction_operator.logs import LogFormat
from tests.unit.driver.support import REQUEST

from .conftest import RELEASE, SINGLE, SYSTEM, TENANT, values

KINDS = ["tablecompactions", "compactioncleanups", "compactionpolicies"]
MANIFESTS = CHART.parents[1] / "manifests"
Key = tuple[str, str, str]
Manifest = dict[str, Any]
Objects = dict[Key, Manifest]


def rendered(values: Mapping[str, Any], *, namespace: str = SYSTEM) -> Objects:
    """Return the objects that the chart makes, by kind, namespace and name."""
    how = ("--skip-tests", "--namespace", namespace, "--values", "-")
    return output("helm", "template", RELEASE, str(CHART), *how, values=values)


def output(program: str, *arguments: str, values: Mapping[str, Any] | None = None) -> Objects:
    """Return the objects that a program prints, by kind, namespace and name."""
    command, given = [str(binaries() / program), *arguments], json.dumps(values)
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    every = [one for one in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if one]
    keyed = {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in every}
    assert len(keyed) == len(every), "one object is there twice"
    return keyed


def configuration(objects: Objects) -> OperatorConfig:
    """Return the operator's configuration as the controller reads it."""
    text = objects["ConfigMap", SYSTEM, f"{RELEASE}-config"]["data"]["config.yaml"]
    return OperatorConfig.model_validate(yaml.safe_load(text))


def claims(objects: Objects) -> dict[str, str]:
    """Return the claims that the controller mounts, by path."""
    pod = objects["Deployment", SYSTEM, RELEASE]["spec"]["template"]["spec"]
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


def test_alerts_and_dashboard_are_made_where_they_are_asked_for() -> None:
    """The alerts as they are in the file, with the address of the runbooks."""
    address = "https://git.example.com/docs/runbooks/"
    rule = {"enabled": True, "labels": {"release": "p"}, "runbooks": address}
    board = {"enabled": True, "annotations": {"folder": "Tables"}}
    made = rendered({"metrics": {"prometheusRule": rule, "dashboard": board}})
    alerts = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    for one in alerts["groups"][0]["rules"]:
        one["annotations"]["runbook_url"] = f"{address}{one['alert']}.md"
    assert made["PrometheusRule", SYSTEM, RELEASE]["spec"] == alerts
    assert made["PrometheusRule", SYSTEM, RELEASE]["metadata"]["labels"]["release"] == "p"
    config = made["ConfigMap", SYSTEM, f"{RELEASE}-dashboard"]
    assert json.loads(config["data"]["compaction-operator.json"])["uid"] == "compaction-operator"
    assert (config["metadata"]["labels"]["grafana_dashboard"], config["metadata"]["annotations"]) == (
        "1",
        {"folder": "Tables"},
    )


def test_the_format_of_logs_reaches_the_configuration() -> None:
    assert configuration(rendered({"log": {"format": "Json"}})).log.format is LogFormat.JSON
    assert configuration(rendered({"log": None})).log.format is LogFormat.TEXT


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"enabled": False, "prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}},
        {"prometheusRule": None, "dashboard": None},
    ],
    ids=["by default", "without metrics", "with the values of an older release"],
)
def test_alerts_and_dashboard_are_left_out(metrics: Mapping[str, Any]) -> None:
    made = rendered({"metrics": metrics})
    assert not {("PrometheusRule", SYSTEM, RELEASE), ("ConfigMap", SYSTEM, f"{RELEASE}-dashboard")} & made.keys()


def test_network_policies_select_the_operators_pods_and_no_others() -> None:
    """Another Spark application in the namespace stays as open as it was."""
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    chosen = {"networkPolicy": {"enabled": True, "metricsFrom": peers}}
    objects = rendered(values("analytics") | chosen)
    drivers = objects["NetworkPolicy", "analytics", "compaction-driver"]["spec"]
    driver = job_manifest(REQUEST, ttl=1.0)["spec"]["template"]["metadata"]["labels"]
    executor = executor_template(REQUEST)["metadata"]["labels"]
    controller = objects["Deployment", SYSTEM, RELEASE]["spec"]["template"]["metadata"]["labels"]
    pods = (driver, executor, controller, {"spark-role": "executor"})
    assert [selects(drivers["podSelector"], one) for one in pods] == [True, True, False, False]
    assert drivers["ingress"] == [{"from": [{"podSelector": drivers["podSelector"]}]}]
    own = objects["NetworkPolicy", SYSTEM, RELEASE]["spec"]
    assert [selects(own["podSelector"], one) for one in pods] == [False, False, True, False]
    probes, (test, *others) = own["ingress"][0], own["ingress"][1]["from"]
    assert (probes, others, own["ingress"][1]["ports"]) == ({"ports": [{"port": 8080}]}, peers, [{"port": 8081}])
    every = output("helm", "template", RELEASE, str(CHART), "--namespace", SYSTEM, "--values", "-", values=values("a"))
    tester = next(one for (kind, _, name), one in every.items() if kind == "Pod" and name.endswith("-test"))
    assert selects(test["podSelector"], tester["metadata"]["labels"])


def test_only_who_is_named_reaches_the_web_page() -> None:
    """And those who may read metrics are not."""
    proxy: list[Any] = [{"podSelector": {"matchLabels": {"app": "proxy"}}}]
    enabled: dict[str, Any] = {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}]}
    closed, named = {"networkPolicy": enabled}, {"networkPolicy": enabled | {"uiFrom": proxy}}

    def rules(chosen: Mapping[str, Any], ui: bool) -> list[Any]:
        found: list[Any] = rendered({**chosen, "ui": {"enabled": ui}})["NetworkPolicy", SYSTEM, RELEASE]["spec"][
            "ingress"
        ]
        return [one for one in found if one["ports"] == [{"port": 8082}]]

    assert rules(closed, True) == rules(named, False) == []
    assert rules(named, True) == [{"from": proxy, "ports": [{"port": 8082}]}]


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a selector of Kubernetes selects an object with these labels."""
    among = all(labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ()))
    return among and selector["matchLabels"].items() <= labels.items()


def test_two_replicas_share_nothing_that_ends_both() -> None:
    """A drain leaves one. They prefer two nodes, if values say nothing."""
    objects = rendered({})
    spec = objects["Deployment", SYSTEM, RELEASE]["spec"]
    budget = objects["PodDisruptionBudget", SYSTEM, RELEASE]["spec"]
    assert (spec["replicas"], budget["maxUnavailable"]) == (2, 1)
    (preferred,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"].values()
    chosen = preferred[0]["podAffinityTerm"]["labelSelector"]
    assert chosen == budget["selector"] == spec["selector"]
    own: dict[str, Any] = {"nodeAffinity": {}}
    given = rendered({"affinity": own})["Deployment", SYSTEM, RELEASE]["spec"]["template"]["spec"]["affinity"]
    assert given == own


@pytest.mark.parametrize("replicas", [1, 2])
def test_controllers_with_old_values_end_before_new_ones_start(replicas: int) -> None:
    """Else one with the old values could go on deleting after an upgrade that suspends deletion."""
    objects = rendered({"replicas": replicas})
    assert objects["Deployment", SYSTEM, RELEASE]["spec"]["strategy"] == {"type": "Recreate"}


def test_one_replica_has_no_budget_and_without_an_election_no_lease() -> None:
    """With a budget no node could be drained."""
    objects = rendered({"replicas": 1, "leaderElection": {"enabled": False}})
    assert not [key for key in objects if key[0] == "PodDisruptionBudget" or key[2].endswith("-election")]
    assert configuration(objects).leader_election is None


def images(**given: Any) -> tuple[str, str]:
    """Return the controller's image and that of the Jobs."""
    objects = rendered(given)
    (deployment,) = [one for (kind, *_), one in objects.items() if kind == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container["image"], configuration(objects).profiles[0].image


def test_a_digest_is_part_of_its_own_image() -> None:
    """The two have one tag, and different digests."""
    one, two = (f"sha256:{digit * 64}" for digit in "12")
    tagged = {"repository": "a/op", "tag": "1"}
    assert images(image=tagged) == ("a/op:1",) * 2
    assert images(image={**tagged, "digest": one}) == (f"a/op:1@{one}",) * 2
    small = {"repository": "a/small"}
    assert images(image={**tagged, "digest": one}, controllerImage=small) == ("a/small:1", f"a/op:1@{one}")
    both = images(image={**tagged, "digest": one}, controllerImage={**small, "digest": two})
    assert both == (f"a/small:1@{two}", f"a/op:1@{one}")


def test_a_digest_of_no_image_is_refused() -> None:
    """Else the controller would run the Jobs' image, by its tag, and the values look as if it were verified."""
    alone = ("--set", f"controllerImage.digest=sha256:{'1' * 64}")
    command = [str(binaries() / "helm"), "template", RELEASE, str(CHART), *alone]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "controllerImage.digest is set, but controllerImage.repository is empty" in refused.stderr


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ("metrics.port=8080", "metrics.port: 8080 is the port of the probes, too"),
        ("ui.port=8080,ui.enabled=true", "ui.port: 8080 is the port of the probes, too"),
        ("ui.port=8081,ui.enabled=true", "ui.port: 8081 is the port of the metrics, too"),
        ("ui.port=8080", None),
        ("ui.port=8081,ui.enabled=true,metrics.enabled=false", None),
    ],
)
def test_two_servers_at_one_port_are_refused(values: str, says: str | None) -> None:
    """In the words of the operator, which would not start. A server that is off takes no port."""
    command = [str(binaries() / "helm"), "template", RELEASE, str(CHART), "--set", values]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (says is None)
    assert says is None or f"{says}; take another one" in done.stderr


def test_two_replicas_need_a_lease() -> None:
    """Else both would act."""
    off = ("--set", "leaderElection.enabled=false")
    command = [str(binaries() / "helm"), "template", RELEASE, str(CHART), *off]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "replicas: 2 controllers need leaderElection.enabled" in refused.stderr


def normal(manifests: Objects) -> Objects:
    """Return manifests without what only Helm or only kustomize adds: labels, checksum, name suffix, namespaces."""
    return dict(normal_object(manifest) for key, manifest in manifests.items() if key[0] not in PLACES)


PLACES = {"Namespace", "PersistentVolume", "PersistentVolumeClaim"}
ONLY_HELM = {"app.kubernetes.io/managed-by", "helm.sh/chart", "helm.sh/resource-policy", "checksum/config"}


def normal_object(manifest: Manifest) -> tuple[Key, Manifest]:
    result = copy.deepcopy(manifest)
    pod = result["spec"]["template"] if result["kind"] == "Deployment" else {}
    for metadata in (result["metadata"], pod.get("metadata", {})):
        for name in ("labels", "annotations"):
            kept = {key: value for key, value in metadata.pop(name, {}).items() if key not in ONLY_HELM}
            metadata.update({name: kept} if kept else {})
    if result["kind"] == "ConfigMap":
        result["metadata"]["name"] = "config"
        result["data"]["config.yaml"] = yaml.safe_load(result["data"]["config.yaml"])
    for volume in pod.get("spec", {}).get("volumes", []):
        volume.get("configMap", {}).update(name="config")
    for container in pod.get("spec", {}).get("containers", []):
        container["volumeMounts"].sort(key=lambda mount: mount["name"])
        pod["spec"]["volumes"].sort(key=lambda volume: volume["name"])
    return (result["kind"], result["metadata"].get("namespace", ""), result["metadata"]["name"]), result


def test_the_walk_throughs_values_are_monitored_and_highly_available() -> None:
    """Two warehouses on two kinds of storage, each with the driver's account in its namespace."""
    objects = rendered(yaml.safe_load((MANIFESTS / "samples" / "production" / "values.yaml").read_text()))
    config = configuration(objects)
    assert [(one.name, one.namespaces, bool(one.stores.s3)) for one in config.warehouses] == [
        ("main", ("analytics",), False),
        ("lake", ("lake",), True),
    ]
    kinds = {kind for kind, *_ in objects}
    assert kinds >= {"PodMonitor", "PrometheusRule", "PodDisruptionBudget", "NetworkPolicy"}
    assert ("ConfigMap", SYSTEM, f"{RELEASE}-dashboard") in objects
    spec = objects["Deployment", SYSTEM, RELEASE]["spec"]
    assert (spec["replicas"], config.leader_election is None) == (2, False)
    drivers = [place for kind, place, name in objects if (kind, name) == ("ServiceAccount", "compaction-driver")]
    assert sorted(drivers) == ["analytics", "lake"]


@pytest.mark.parametrize("folder", ["default", "samples/warehouse"])
def test_kustomize_makes_what_helm_makes(folder: str) -> None:
    """Object by object, field by field, for the default and for the sample warehouse."""
    values = MANIFESTS / folder / "values.yaml"
    given = yaml.safe_load(values.read_text()) if values.exists() else {}
    kustomized = normal(output("kubectl", "kustomize", str(MANIFESTS / folder)))
    made = normal(rendered(given, namespace=RELEASE))
    assert set(kustomized) == set(made)
    for key, manifest in made.items():
        assert kustomized[key] == manifest, key


@pytest.mark.parametrize(
    "ui", [{}, {"ui": {"enabled": False}}, {"ui": None}], ids=["by default", "off", "older values"]
)
def test_the_web_page_is_off_unless_it_is_asked_for(ui: Mapping[str, Any]) -> None:
    """Its port is on neither the pod nor the Service."""
    assert ports(rendered(ui)) == ({"health", "metrics"}, {"metrics"})
    assert not configuration(rendered(ui)).ui.enabled
    assert ("Role", SYSTEM, f"{RELEASE}-ui") not in rendered(ui)


def test_the_web_page_has_a_port_of_its_own() -> None:
    """So a NetworkPolicy can tell those who look at it from Prometheus. It needs no metrics."""
    made = rendered({"ui": {"enabled": True, "port": 9000}})
    assert ports(made) == ({"health", "metrics", "ui"}, {"metrics", "ui"})
    assert (configuration(made).ui.enabled, configuration(made).ui.port) == (True, 9000)
    (rule,) = made["Role", SYSTEM, f"{RELEASE}-ui"]["rules"]
    assert rule == {
        "apiGroups": [""],
        "resources": ["services/proxy"],
        "resourceNames": [f"{RELEASE}:ui"],
        "verbs": ["get"],
    }
    alone = rendered({"ui": {"enabled": True}, "metrics": {"enabled": False}})
    assert ports(alone) == ({"health", "ui"}, {"ui"})


def ports(objects: Objects) -> tuple[set[str], set[str]]:
    """Return the names of the ports of the controller's pod and of its Service."""
    (container,) = objects["Deployment", SYSTEM, RELEASE]["spec"]["template"]["spec"]["containers"]
    service = objects.get(("Service", SYSTEM, RELEASE), {"spec": {"ports": []}})
    return {one["name"] for one in container["ports"]}, {one["name"] for one in service["spec"]["ports"]}


def test_users_may_have_roles_in_namespaces_while_the_whole_cluster_is_watched() -> None:
    made = rendered(values(TENANT) | {"rbac": {"aggregateClusterRoles": False}})
    of_users = {f"{RELEASE}-{one}" for one in ("view", "edit", "approve")}
    assert {name for kind, place, name in made if (kind, place) == ("Role", TENANT)} > of_users
    assert {name for kind, _, name in made if kind == "ClusterRole"} == {RELEASE}


def test_each_role_of_a_namespace_is_of_use_alone() -> None:
    """Who edits or approves reads first. The rules that Kubernetes adds to its own roles stay as they are."""
    read = {"apiGroups": ["compaction.dev"], "resources": KINDS, "verbs": ["get", "list", "watch"]}
    single = rendered(values(TENANT) | SINGLE)
    given = {one: single["Role", TENANT, f"{RELEASE}-{one}"]["rules"] for one in ("view", "edit", "approve")}
    assert given["view"] == [read]
    assert [given["edit"][0], given["approve"][0]] == [read, read]
    every = rendered(values(TENANT))
    for one in ("edit", "approve"):
        assert every["ClusterRole", "", f"{RELEASE}-{one}"]["rules"] == given[one][1:]
