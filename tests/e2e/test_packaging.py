"""Helm, kustomize and a real API server accept what is shipped, and the API server refuses what makes no sense."""

import copy
import json
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from sandbox.cluster.running import running_sandbox
from sandbox.harness.namespaces import restricted_namespace

from compaction_operator.api.config import OperatorConfig

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "compaction-operator"
SAMPLES = ROOT / "manifests" / "samples"
SAMPLE_VALUES = SAMPLES / "warehouse" / "values.yaml"
RELEASE = "compaction-operator"
API_VERSION = "compaction.dev/v1alpha1"
CRDS = (
    "crd/tablecompactions.compaction.dev",
    "crd/compactioncleanups.compaction.dev",
    "crd/compactionpolicies.compaction.dev",
)
Manifest = dict[str, Any]
Key = tuple[str, str, str]

COMPACTION: Manifest = {
    "warehouse": "no-such-warehouse",
    "table": {"database": "default", "name": "t"},
    "partitions": ["prt=p1"],
    "type": "Minor",
    "suspend": True,
}
HUDI_COMPACTION: Manifest = {
    "warehouse": "no-such-warehouse",
    "table": {"location": "/warehouse/lake/orders"},
    "type": "LogCompaction",
    "hudi": {"maxLogFileSizeToMerge": "512KiB", "options": {"hoodie.log.compaction.blocks.threshold": "4"}},
    "suspend": True,
}
POLICY: Manifest = {"warehouse": "no-such-warehouse", "tables": {"include": ["sales.*"]}, "suspend": True}
CLEANUP: Manifest = {
    "warehouse": "no-such-warehouse",
    "table": {"database": "default", "name": "t", "createTime": 1, "location": "/warehouse/t"},
    "compaction": {"name": "a", "uid": "u", "attempt": 1, "job": "a-1", "podUid": "p"},
    "partitions": [
        {
            "partition": "prt=p1",
            "location": "/warehouse/t/prt=p1",
            "createTime": 1,
            "outputs": ["base_0000003"],
            "highestWriteId": 3,
            "obsolete": [{"name": "delta_0000001_0000001_0000", "reason": "covered by base_0000003"}],
        }
    ],
    "suspend": True,
}


class Cluster(NamedTuple):
    """A cluster with the CRDs, and a namespace in it for one test module."""

    environment: dict[str, str]
    namespace: str

    def run(self, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run helm or kubectl and return how it ended."""
        return subprocess.run(
            command, input=stdin, env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )

    def output(self, *command: str, stdin: str | None = None) -> str:
        """Run helm or kubectl, which must succeed, and return what it printed."""
        ended = self.run(*command, stdin=stdin)
        assert ended.returncode == 0, f"{shlex.join(command)}: {ended.stderr}"
        return ended.stdout

    def refusal(self, *command: str, stdin: str | None = None) -> str:
        """Run helm or kubectl, which must fail, and return its complaint."""
        ended = self.run(*command, stdin=stdin)
        assert ended.returncode != 0, f"{shlex.join(command)}: accepted: {ended.stdout}"
        return ended.stderr

    def render(self, *options: str) -> dict[Key, Manifest]:
        """Return what the chart makes, by kind, namespace and name."""
        return by_key(self.output("helm", "template", RELEASE, str(CHART), "--namespace", RELEASE, *options))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Give a cluster that has the CRDs, with a namespace that is removed afterwards.

    CRDs that were there belong to an installed chart and stay; others go, or Helm would not take them as its own later.
    """
    found = Cluster(running_sandbox().environment(), f"packaging-{uuid.uuid4().hex[:8]}")
    installed = found.run("kubectl", "get", *CRDS).returncode == 0
    how = ("--server-side", "--force-conflicts", "-k", str(ROOT / "crds"))
    # NB: what kubectl applied is its own from then on, and a changed chart could not be installed any more.
    if found.run("kubectl", "diff", *how).returncode:
        found.output("kubectl", "apply", *how)
    found.output("kubectl", "wait", "--for=condition=Established", "--timeout=60s", *CRDS)
    found.output("kubectl", "create", "-f", "-", stdin=json.dumps(restricted_namespace(found.namespace)))
    yield found
    found.output("kubectl", "delete", "namespace", found.namespace, f"--wait={not installed}".lower())
    if not installed:
        found.output("kubectl", "delete", *CRDS)


@pytest.fixture(scope="module")
def release_namespace(cluster: Cluster) -> Iterator[str]:
    """Give the namespace of the operator, since a dry run does not make it. It stays if it was there before."""
    made = cluster.run("kubectl", "create", "-f", "-", stdin=json.dumps(restricted_namespace(RELEASE))).returncode == 0
    yield RELEASE
    if made:
        cluster.output("kubectl", "delete", "namespace", RELEASE)


def by_key(text: str) -> dict[Key, Manifest]:
    manifests = [manifest for manifest in yaml.safe_load_all(text) if manifest]
    keyed = {
        (manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]): manifest
        for manifest in manifests
    }
    assert len(keyed) == len(manifests), "one object is there twice"
    return keyed


def resource(cluster: Cluster, kind: str, spec: Manifest, name: str = "a") -> str:
    metadata = {"name": name, "namespace": cluster.namespace}
    return json.dumps({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})


def changed(spec: Manifest, path: str, value: Any) -> Manifest:
    """Return a copy of a spec with another value at a dotted path; numbers are places in a list."""
    result = copy.deepcopy(spec)
    *parents, last = [int(name) if name.isdigit() else name for name in path.split(".")]
    parent: Any = result
    for name in parents:
        parent = parent[name] if isinstance(name, int) else parent.setdefault(name, {})
    parent[last] = value
    return result


# --- The chart


def test_lint(cluster: Cluster) -> None:
    """`helm lint --strict` has nothing to say, with and without warehouses."""
    cluster.output("helm", "lint", "--strict", str(CHART))
    cluster.output("helm", "lint", "--strict", str(CHART), "--values", str(SAMPLE_VALUES))


@pytest.mark.parametrize("options", [[], ["--values", str(SAMPLE_VALUES)]])
def test_the_api_server_accepts_the_chart(cluster: Cluster, release_namespace: str, options: list[str]) -> None:
    """`helm template | kubectl apply --dry-run=server` passes without a warning."""
    rendered = cluster.output("helm", "template", RELEASE, str(CHART), "--namespace", release_namespace, *options)
    # The driver's account is for a namespace that need not exist here.
    rendered = rendered.replace("namespace: analytics", f"namespace: {cluster.namespace}")
    ended = cluster.run(
        "kubectl", "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", stdin=rendered
    )
    assert (ended.returncode, ended.stderr) == (0, "")


BAD_VALUES = [
    ("cleanup.threads=0", "/cleanup/threads"),
    ("cleanup.interval=2", "/cleanup/interval"),
    ("cleanup.interval=0s", "/cleanup/interval"),
    ("warehuoses=1", "warehuoses"),
    ("warehouses[0].name=main", "/warehouses/0"),
    ("warehouses[0].metastore.uris[0]=ftp://hive:9083", "/warehouses/0/metastore/uris/0"),
    ("cleanup.ttl=soon", "/cleanup/ttl"),
    ("cleanup.planningTime=long", "/cleanup/planningTime"),
    ("metrics.port=8080", "metrics.port: 8080 is the port of the probes"),
    ("metrics.podMonitor.interval=0s", "/metrics/podMonitor/interval"),
    ("metrics.prometheusRule.runbooks=docs", "/metrics/prometheusRule/runbooks"),
    ("metrics.dashboard.folder=Tables", "/metrics/dashboard"),
    ("log.format=json", "/log/format"),
    ("profiles=[]", "/profiles"),
    ("replicas=0", "/replicas"),
    ("leaderElection.enabled=maybe", "/leaderElection/enabled"),
    ("profiles[0].sparkConf.a=1", "/profiles/0/sparkConf/a"),
    ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
    ("warehouses[0].locations[0]=lake", "/warehouses/0/locations/0"),
    ("warehouses[0].hudi.locations[0]=lake", "/warehouses/0/hudi/locations/0"),
    ("warehouses[0].hudi.options.hoodie=yes", "/warehouses/0/hudi/options"),
    ("warehouses[0].hudi.bundle=1.0.2", "/warehouses/0/hudi"),
    ("warehouses[0].locations[0]=gs://bucket/w", "/warehouses/0/locations/0"),
    ("warehouses[0].stores.gs.region=eu", "/warehouses/0/stores"),
    ("warehouses[0].stores.hdfs.mountPath=/etc/hadoop/conf", "/warehouses/0/stores/hdfs"),
    ("warehouses[0].stores.s3.endpoint=https://key:secret@host", "/warehouses/0/stores/s3/endpoint"),
    ("warehouses[0].stores.s3.secretAccessKey=secret", "/warehouses/0/stores/s3"),
    ("warehouses[0].stores.s3.buckets.b.secret.name=secret", "/warehouses/0/stores/s3/buckets/b"),
]


@pytest.mark.parametrize(("value", "named"), BAD_VALUES, ids=[value for value, _ in BAD_VALUES])
def test_bad_values_are_refused_by_name(cluster: Cluster, value: str, named: str) -> None:
    """Helm itself says which value makes no sense."""
    given = value.partition("=")[2]
    option = "--set-json" if given.isdigit() or given == "[]" else "--set"
    assert named in cluster.refusal("helm", "template", RELEASE, str(CHART), option, value)


def test_the_configuration_is_the_values(cluster: Cluster, tmp_path: Path) -> None:
    """The operator reads what the values say; an absent image is the operator's own."""
    values = load_values() | {
        "image": {"tag": "7", "pullPolicy": "Never"},
        "profiles": [{"name": "default"}, {"name": "big", "image": "spark:1"}],
        "cleanup": {"suspend": True},
    }
    rendered = cluster.render("--values", str(written(tmp_path, values)))
    text = rendered["ConfigMap", RELEASE, "compaction-operator-config"]["data"]["config.yaml"]
    config = OperatorConfig.model_validate(yaml.safe_load(text))
    assert [(profile.name, profile.image, profile.image_pull_policy) for profile in config.profiles] == [
        ("default", "compaction-operator:7", "Never"),
        ("big", "spark:1", "Never"),
    ]
    (warehouse,) = config.warehouses
    assert (warehouse.name, warehouse.namespaces, warehouse.metastore.timeout) == ("main", ("analytics",), 20.0)
    assert (config.cleanup.suspend, config.cleanup.interval) == (True, 2.0)


def load_values() -> Manifest:
    values: Manifest = yaml.safe_load(SAMPLE_VALUES.read_text())
    return values


def test_what_holds_for_hudi_tables_reaches_the_configuration(cluster: Cluster, tmp_path: Path) -> None:
    """A lock provider for all of a warehouse's tables, and the folders in which tables may be named by location."""
    hudi = {"options": {"hoodie.write.lock.provider": "a.LockProvider"}, "locations": ["/warehouse/lake"]}
    values = load_values()
    values["warehouses"][0]["hudi"] = hudi
    rendered = cluster.render("--values", str(written(tmp_path, values)))
    text = rendered["ConfigMap", RELEASE, "compaction-operator-config"]["data"]["config.yaml"]
    (warehouse,) = OperatorConfig.model_validate(yaml.safe_load(text)).warehouses
    assert warehouse.hudi.to_json() == hudi


def written(folder: Path, values: Manifest) -> Path:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_a_changed_configuration_restarts_the_controller(cluster: Cluster) -> None:
    """The controller reads its configuration once, so the pod template must change with it."""

    def template(*options: str) -> Any:
        return cluster.render(*options)["Deployment", RELEASE, RELEASE]["spec"]["template"]

    assert template() == template()
    assert template() != template("--set", "maxConcurrentJobs=3")


def test_metrics_can_be_left_out(cluster: Cluster) -> None:
    """By default the pod says where they are; a PodMonitor is made only where it is asked for."""

    def pod(*options: str) -> tuple[set[str], list[str]]:
        template = cluster.render(*options)["Deployment", RELEASE, RELEASE]["spec"]["template"]
        ports = [port["name"] for port in template["spec"]["containers"][0]["ports"]]
        return set(template["metadata"]["annotations"]), ports

    assert pod() == ({"checksum/config", "prometheus.io/scrape", "prometheus.io/port"}, ["health", "metrics"])
    assert pod("--set", "metrics.enabled=false") == ({"checksum/config"}, ["health"])
    own = {("Service", RELEASE, RELEASE), ("Role", RELEASE, f"{RELEASE}-why")}
    assert own <= cluster.render().keys()
    assert not own & cluster.render("--set", "metrics.enabled=false").keys()
    monitor = ("PodMonitor", RELEASE, RELEASE)
    assert monitor not in cluster.render()
    rendered = cluster.render("--set", "metrics.podMonitor.enabled=true", "--set", "metrics.podMonitor.labels.team=x")
    assert rendered[monitor]["metadata"]["labels"]["team"] == "x"
    assert rendered[monitor]["spec"]["podMetricsEndpoints"] == [{"port": "metrics", "interval": "30s"}]


def test_warehouses_share_namespaces_and_volumes(cluster: Cluster, tmp_path: Path) -> None:
    """Two warehouses on one claim and in one namespace give one mount, one service account and one of each role."""
    volume = {"claimName": "files", "mountPath": "/warehouse"}
    warehouses = [
        {"name": name, "metastore": {"uris": [f"thrift://{name}:9083"]}, "namespaces": spaces, "volume": volume}
        for name, spaces in (("one", ["b", "a"]), ("two", ["b"]))
    ]
    rendered = cluster.render("--values", str(written(tmp_path, {"warehouses": warehouses})))
    made = {(kind, "compaction-driver") for kind in ("ServiceAccount", "Role", "RoleBinding")}
    for kind, name in made | {("Role", RELEASE), ("RoleBinding", RELEASE)}:
        assert {key[1] for key in rendered if (key[0], key[2]) == (kind, name)} == {"a", "b"}
    pod = rendered["Deployment", RELEASE, RELEASE]["spec"]["template"]["spec"]
    assert [found["persistentVolumeClaim"]["claimName"] for found in pod["volumes"][2:]] == ["files"]
    mounted = [found["mountPath"] for found in pod["containers"][0]["volumeMounts"][2:]]
    assert mounted == ["/volumes/files/warehouse"]


SECRET = {"name": "client", "mountPath": "/etc/client"}
HDFS_LOGIN = {"clientPrincipal": "c@R", "keytab": "/etc/client/keytab", "configFile": "/etc/client/krb5.conf"}


def on_hdfs_and_s3(**settings: Any) -> list[Manifest]:
    """Two warehouses on one HDFS with its metastore in the same realm, the second also on S3."""
    hdfs = {"configMap": "hadoop-conf", "kerberos": HDFS_LOGIN, "secret": SECRET}
    metastore = {
        "uris": ["thrift://hive:9083"],
        "kerberos": HDFS_LOGIN | {"principal": "hive/_HOST@R"},
        "secret": SECRET | {"mountPath": "/etc/client/"},
    }
    one = {
        "name": "one", "metastore": metastore, "namespaces": ["a"], "locations": ["hdfs://ns/w"],
        "stores": {"hdfs": hdfs},
    }  # fmt: skip
    s3 = {"region": "eu-west-1", "secret": {"name": "s3-client", "mountPath": "/etc/s3"}} | settings
    return [one, one | {"name": "two", "locations": ["hdfs://ns/w", "s3a://b"], "stores": {"hdfs": hdfs, "s3": s3}}]


def test_the_controller_mounts_what_reaches_the_stores(cluster: Cluster, tmp_path: Path) -> None:
    """Equal configurations and secrets of several warehouses once; the operator reads the same settings."""
    rendered = cluster.render("--values", str(written(tmp_path, {"warehouses": on_hdfs_and_s3()})))
    pod = rendered["Deployment", RELEASE, RELEASE]["spec"]["template"]["spec"]
    sources = {volume.pop("name"): volume for volume in pod["volumes"]}
    container = pod["containers"][0]
    mounts = container["volumeMounts"]
    assert {mount["mountPath"]: sources[mount["name"]] for mount in mounts[2:]} == {
        "/etc/client": {"secret": {"secretName": "client", "defaultMode": 0o440}},
        "/etc/hadoop/conf": {"configMap": {"name": "hadoop-conf"}},
        "/etc/s3": {"secret": {"secretName": "s3-client", "defaultMode": 0o440}},
    }
    assert len(mounts) == len(sources) == 5
    assert all(mount["readOnly"] for mount in mounts[2:])
    assert container["env"] == [{"name": "KRB5_CONFIG", "value": "/etc/client/krb5.conf"}]
    text = rendered["ConfigMap", RELEASE, "compaction-operator-config"]["data"]["config.yaml"]
    assert [warehouse.name for warehouse in OperatorConfig.model_validate(yaml.safe_load(text)).warehouses] == [
        "one", "two",
    ]  # fmt: skip


def test_two_secrets_at_one_path_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    """The message names both. The API server would only refuse the controller's pod, later."""
    other = {"name": "s3-client", "mountPath": "/etc/client/"}
    values = written(tmp_path, {"warehouses": on_hdfs_and_s3(secret=other)})
    refused = cluster.refusal("helm", "template", RELEASE, str(CHART), "--values", str(values))
    assert "mountPath /etc/client of two: secret client and secret s3-client cannot be mounted at one path" in refused


def test_accounts_may_have_an_identity_in_a_cloud(cluster: Cluster) -> None:
    """Each its own. Without annotations there are none."""

    def annotations(*options: str) -> tuple[Any, Any]:
        rendered = cluster.render("--values", str(SAMPLE_VALUES), *options)
        controller = rendered["ServiceAccount", RELEASE, RELEASE]["metadata"]
        driver = rendered["ServiceAccount", "analytics", "compaction-driver"]["metadata"]
        return controller.get("annotations"), driver.get("annotations")

    assert annotations() == (None, None)
    key = "serviceAccountAnnotations.{}.eks\\.amazonaws\\.com/role-arn={}"
    options = [f"--set={key.format(name, f'arn:{name}')}" for name in ("controller", "driver")]
    role = "eks.amazonaws.com/role-arn"
    assert annotations(*options) == ({role: "arn:controller"}, {role: "arn:driver"})


def test_crds_can_be_left_out_and_are_kept(cluster: Cluster) -> None:
    """Uninstalling the chart never takes everybody's compactions with it."""
    kept = [manifest for key, manifest in cluster.render().items() if key[0] == "CustomResourceDefinition"]
    assert [crd["metadata"]["annotations"] for crd in kept] == [{"helm.sh/resource-policy": "keep"}] * len(CRDS)
    assert not [key for key in cluster.render("--set", "crds.install=false") if key[0] == "CustomResourceDefinition"]


def test_the_controllers_pod_passes_the_restricted_profile(cluster: Cluster) -> None:
    """The API server itself checks the pod against the restricted Pod Security Standard."""
    rendered = cluster.render("--values", str(SAMPLE_VALUES))
    pod = rendered["Deployment", RELEASE, RELEASE]["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
    security = pod["containers"][0]["securityContext"]
    for context, outcome in ((security, cluster.output), (security | {"capabilities": {}}, cluster.refusal)):
        container = pod["containers"][0] | {"securityContext": context}
        manifest = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "controller", "namespace": cluster.namespace},
            "spec": pod | {"containers": [container]},
        }  # fmt: skip
        outcome("kubectl", "create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))


def test_the_controllers_image_is_a_fifth_of_the_other(cluster: Cluster) -> None:
    """Without Java, Spark, Hudi's bundles and the engine's libraries."""
    nodes = json.loads(cluster.output("kubectl", "get", "nodes", "-o", "json"))["items"]
    sizes = {name: image["sizeBytes"] for image in nodes[0]["status"]["images"] for name in image["names"]}
    running = running_sandbox()
    assert sizes[running.controller_image] < sizes[running.operator_image] / 5


def test_no_rule_is_a_wildcard_and_only_status_is_written(cluster: Cluster) -> None:
    """The controller never changes a spec, and neither account touches secrets; it deletes ended journals and Jobs."""
    rendered = cluster.render("--values", str(SAMPLE_VALUES))
    everywhere = rendered["ClusterRole", "", RELEASE]["rules"]
    in_namespaces = rendered["Role", "analytics", RELEASE]["rules"]
    driver = rendered["Role", "analytics", "compaction-driver"]["rules"]
    every = everywhere + in_namespaces + driver
    assert not [rule for rule in every if "*" in str(rule) or "secrets" in rule["resources"]]
    assert verbs_on("tablecompactions", everywhere) == {"list", "watch"}
    assert verbs_on("compactioncleanups", everywhere) == {"list", "watch", "delete"}
    assert verbs_on("jobs", everywhere) == {"get", "list", "watch"}
    assert verbs_on("compactionpolicies", everywhere) == {"list", "watch"}
    assert [(rule["resources"], sorted(rule["verbs"])) for rule in in_namespaces] == [
        (["jobs"], ["create", "delete"]),
        (["events"], ["list"]),
        (["tablecompactions"], ["create", "delete"]),
    ]
    (journal,) = [rule for rule in driver if rule["apiGroups"] == ["compaction.dev"]]
    assert (journal["resources"], sorted(journal["verbs"])) == (["compactioncleanups"], ["create", "get"])
    (lease,) = [rule for rule in driver if rule["apiGroups"] == ["coordination.k8s.io"]]
    assert (lease["resources"], sorted(lease["verbs"])) == (["leases"], ["create", "get", "update"])


def verbs_on(resource: str, rules: list[Manifest]) -> set[str]:
    return {verb for rule in rules if resource in rule["resources"] for verb in rule["verbs"]}


RIGHTS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


@pytest.fixture
def controller_account(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """Give the rights of a release that serves the test's namespace, and return the controller's user."""
    values = load_values()
    values["warehouses"][0]["namespaces"] = [cluster.namespace]
    release = f"rights-of-{cluster.namespace}"
    options = ("--namespace", cluster.namespace, "--values", str(written(tmp_path, values)))
    text = cluster.output("helm", "template", release, str(CHART), *options)
    objects = [one for key, one in by_key(text).items() if key[0] in RIGHTS]
    rights = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    cluster.output("kubectl", "apply", "-f", "-", stdin=rights)
    (account,) = {one["metadata"]["name"] for one in objects if one["kind"] == "ClusterRoleBinding"}
    yield f"system:serviceaccount:{cluster.namespace}:{account}"
    cluster.output("kubectl", "delete", "-f", "-", stdin=rights)


def test_the_controller_makes_jobs_only_where_a_warehouse_lists_the_namespace(
    cluster: Cluster, controller_account: str
) -> None:
    """A Job is a pod of any kind: with the controller's token one can be made nowhere else."""

    def allowed(verb: str, what: str, namespace: str) -> bool:
        where = ("--namespace", namespace, "--as", controller_account)
        return cluster.run("kubectl", "auth", "can-i", verb, what, *where).stdout.strip() == "yes"

    for namespace, expected in ((cluster.namespace, True), ("default", False), ("kube-system", False)):
        assert [allowed(verb, "jobs.batch", namespace) for verb in ("create", "delete")] == [expected] * 2
        for verb, what in (("watch", "jobs.batch"), ("watch", "tablecompactions"), ("create", "events")):
            assert allowed(verb, what, namespace)


# --- The manifests


def test_the_api_server_accepts_the_manifests(cluster: Cluster, release_namespace: str) -> None:
    """`kubectl apply -k manifests/default` passes without a warning."""
    folder = str(ROOT / "manifests" / "default")
    ended = cluster.run("kubectl", "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", folder)
    assert (ended.returncode, ended.stderr) == (0, ""), release_namespace


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_api_server_accepts_the_samples(cluster: Cluster, path: Path) -> None:
    """Each sample is a valid TableCompaction in fields that exist, or what makes one on a schedule."""
    apply = ("kubectl", "--namespace", cluster.namespace, "apply", "--dry-run=server")
    cluster.output(*apply, "-f", str(path))
    manifests = yaml.safe_load_all(path.read_text())
    kept = [text for one in manifests if one["kind"] == "ConfigMap" for text in one["data"].values()]
    for text in kept:
        named = yaml.safe_load(text) | {"metadata": {"name": "scheduled"}}
        cluster.output(*apply, "-f", "-", stdin=json.dumps(named))


# --- The CRDs


LONG_LIST = [f"year=2024/month=1/day=1/hour=1/part={number:05d}" for number in range(500)]
BAD_COMPACTIONS = [
    ("type", "LogCompation", "spec.type: Unsupported value"),
    ("type", "minor", "spec.type: Unsupported value"),
    ("format", "Hudi", "spec.type: Invalid value: must match format"),
    ("format", "Iceberg", "spec.format: Unsupported value"),
    ("table", {"location": "/warehouse/t"}, "spec.table.location: Invalid value: is for Hudi tables"),
    ("table", {"database": "default"}, "either database and name, or location"),
    ("hudi", {}, "spec.hudi: Invalid value: is for Hudi tables"),
    ("warehouse", "", "spec.warehouse"),
    ("warehouse", "w" * 64, "spec.warehouse: Too long"),
    ("table.name", "default.t", "spec.table.name"),
    ("table.name", "", "spec.table.name"),
    ("table.name", "t" * 257, "spec.table.name: Too long"),
    ("table.database", "a b", "spec.table.database"),
    ("partitions", ["prt=p1", "prt=p1"], "spec.partitions[1]: Duplicate value"),
    ("partitions", [""], "spec.partitions[0]"),
    ("partitions", ["=p1"], "spec.partitions[0]"),
    ("partitions", ["p1"], "spec.partitions: Invalid value: must each have a key and a value"),
    ("partitions", ["2024/p=1"], "spec.partitions: Invalid value: must each have a key and a value"),
    ("partitions", ["prt="], "spec.partitions: Invalid value: must each have a key and a value"),
    ("partitions", [f"prt={number}" for number in range(501)], "spec.partitions: Too many"),
    ("partitions", LONG_LIST, "spec.partitions: Invalid value"),
    ("cleanup.interval", "2", "spec.cleanup.interval"),
    ("cleanup.interval", "0s", "must be between 100ms and 24h"),
    ("cleanup.interval", "-2s", "spec.cleanup.interval"),
    ("cleanup.gracePeriod", "soon", "spec.cleanup.gracePeriod"),
    ("cleanup.gracePeriod", "9000h", "spec.cleanup.gracePeriod"),
    ("cleanup.mode", "Ask", "spec.cleanup.mode: Unsupported value"),
    ("cleanup.readers", "Transactions", "spec.cleanup.readers: Unsupported value"),
    ("cleanup.deadline", "soon", "spec.cleanup.deadline"),
    ("cleanup.deadline", "-24h", "spec.cleanup.deadline"),
    ("cleanup.deadline", "0s", "must be between 1s and 8760h"),
    ("cleanup.quarantine", "9000h", "must be between 1s and 8760h"),
    ("cleanup", {"mode": "Never", "quarantine": "24h"}, "spec.cleanup: Invalid value: has mode Never"),
    ("spark.profile", "Big", "spec.spark.profile"),
    ("spark.driver.cores", 0, "spec.spark.driver.cores"),
    ("spark.driver.memory", "1GB", "spec.spark.driver.memory"),
    ("spark.executors.cores", 0, "spec.spark.executors.cores"),
    ("spark.executors.instances", -1, "spec.spark.executors.instances"),
    ("spark.executors.instances", "auto", "spec.spark.executors.instances"),
    ("retry.maxAttempts", 0, "spec.retry.maxAttempts"),
    ("retry.backoff", "11m", "spec.retry.backoff"),
    ("deadline", "6 hours", "spec.deadline"),
    ("deadline", "-6h", "spec.deadline"),
    ("deadline", "0s", "must be between 1m and 8760h"),
    ("deadline", "59s", "must be between 1m and 8760h"),
    ("deadline", "9000h", "must be between 1m and 8760h"),
    ("allowAutoCompaction", "yes", "spec.allowAutoCompaction"),
    ("suspend", "yes", "spec.suspend"),
]
LARGE = {f"hoodie.option.{number}": "v" * 4096 for number in range(5)}
BAD_HUDI_COMPACTIONS = [
    ("type", "Major", "spec.table.location"),
    ("format", "HiveAcid", "spec.type: Invalid value: must match format"),
    ("table.name", "t", "either database and name, or location"),
    ("table", {}, "either database and name, or location"),
    ("table.location", "lake/t", "spec.table.location"),
    ("table.location", "", "spec.table.location"),
    ("table.location", "/" + "t" * 1024, "spec.table.location: Too long"),
    ("table.location", "/warehouse/lake/../other", "must not lead through . or .."),
    ("partitions", ["/2024"], "spec.partitions[0]"),
    ("cleanup", {"mode": "Never"}, "spec.cleanup: Invalid value: is for Hive ACID tables"),
    ("cleanup", {"quarantine": "24h"}, "spec.cleanup: Invalid value: is for Hive ACID tables"),
    ("hudi.mode", "Plan", "spec.hudi.mode: Unsupported value"),
    ("hudi.bundle", "../1.0.2", "spec.hudi.bundle"),
    ("hudi.maxLogFileSizeToMerge", "1000", "spec.hudi.maxLogFileSizeToMerge"),
    ("hudi.options", {"fs.defaultFS": "file:///"}, "must have only keys that begin with hoodie."),
    ("hudi.options", {"hoodie." + "k" * 250: "v"}, "must have only keys that begin with hoodie."),
    ("hudi.options", {f"hoodie.{number}": "v" for number in range(65)}, "spec.hudi.options: Too many"),
    ("hudi.options", LARGE, "has values of more than 16384 characters"),
    ("hudi.options", {"hoodie.clean.policy": 1}, "spec.hudi.options.hoodie.clean.policy"),
    ("type", "Compaction", "spec.hudi: Invalid value: has metadataTable or maxLogFileSizeToMerge"),
    ("hudi", {"metadataTable": True, "mode": "Schedule"}, "spec.hudi.metadataTable: Invalid value: is for mode"),
]
ENTRY = CLEANUP["partitions"][0]
BAD_CLEANUPS = [
    ("partitions", [], "spec.partitions"),
    ("partitions", [ENTRY | {"partition": f"p={number}"} for number in range(501)], "spec.partitions: Too many"),
    ("partitions", [ENTRY, ENTRY], "spec.partitions[1]: Duplicate value"),
    ("partitions", [ENTRY, ENTRY | {"partition": ""}], "an unpartitioned table has exactly one entry"),
    ("partitions.0.outputs", ["../base_0000003"], "spec.partitions[0].outputs[0]"),
    ("partitions.0.outputs", [f"delta_{n}_{n}" for n in range(101)], "spec.partitions[0].outputs: Too many"),
    ("partitions.0.obsolete.0.name", "..", "spec.partitions[0].obsolete[0].name"),
    ("partitions.0.obsolete.0.name", "delta_1_1/../../other", "spec.partitions[0].obsolete[0].name"),
    ("partitions.0.obsolete.0.name", "part-00000.orc", "spec.partitions[0].obsolete[0].name"),
    ("partitions.0.obsolete.0.name", "HIVE_UNION_SUBDIR_1/000000_0", "spec.partitions[0].obsolete[0].name"),
    ("partitions.0.obsolete.0.name", "base_1\n", "spec.partitions[0].obsolete[0].name"),
    ("partitions.0.obsolete", [ENTRY["obsolete"][0]] * 2, "spec.partitions[0].obsolete[1]: Duplicate value"),
    ("partitions.0.highestWriteId", "3", "spec.partitions[0].highestWriteId"),
    ("table.location", "", "spec.table.location"),
    ("compaction.attempt", 0, "spec.compaction.attempt"),
    ("interval", "50ms", "must be between 100ms and 24h"),
    ("deadline", "soon", "spec.deadline"),
    ("deadline", "0s", "must be between 1s and 8760h"),
]
WINDOW = {"start": "22:00", "duration": "8h"}
BAD_POLICIES = [
    ("tables.include", [], "spec.tables.include"),
    ("tables.include", ["orders"], "spec.tables.include[0]"),
    ("tables.exclude", ["sales orders"], "spec.tables.exclude[0]"),
    ("warehouse", "Main", "spec.warehouse"),
    ("strategy", "Best", "spec.strategy: Unsupported value"),
    ("strategy", "Gain", "strategy Gain needs bytesPerWindow"),
    ("windows", [WINDOW | {"start": "24:00"}], "spec.windows[0].start"),
    ("windows", [WINDOW | {"duration": "25h"}], "must be between 1m and 24h"),
    ("windows", [WINDOW | {"days": ["Today"]}], "spec.windows[0].days[0]: Unsupported value"),
    ("interval", "1s", "must be between 10s and 24h"),
    ("minInterval", "9000h", "must be at most 8760h"),
    ("maxDelay", "0s", "must be between 1m and 8760h"),
    ("maxConcurrent", 0, "spec.maxConcurrent"),
    ("databaseShare", 101, "spec.databaseShare"),
    ("bytesPerWindow", "0GiB", "spec.bytesPerWindow"),
    ("coreHoursPerWindow", 0, "spec.coreHoursPerWindow"),
    ("thresholds.deltas", 0, "spec.thresholds.deltas"),
    ("thresholds.logBlocks", 1, "spec.thresholds.logBlocks"),
    ("history.failed", -1, "spec.history.failed"),
    ("template.hudi.options", {"fs.defaultFS": "file:///"}, "must have only keys that begin with hoodie."),
    ("template.deadline", "0s", "must be between 1m and 8760h"),
]
EACH_BAD = [
    *(("TableCompaction", *case) for case in BAD_COMPACTIONS),
    *(("CompactionCleanup", *case) for case in BAD_CLEANUPS),
    *(("CompactionPolicy", *case) for case in BAD_POLICIES),
]
VALID = {"TableCompaction": COMPACTION, "CompactionCleanup": CLEANUP, "CompactionPolicy": POLICY}


def case_id(part: Any) -> str:
    return str(part)[:24]


@pytest.mark.parametrize(("kind", "path", "value", "named"), EACH_BAD, ids=case_id)
def test_invalid_specs_are_refused(cluster: Cluster, kind: str, path: str, value: Any, named: str) -> None:
    """The API server refuses, and its message names the field."""
    manifest = resource(cluster, kind, changed(VALID[kind], path, value))
    assert named in cluster.refusal("kubectl", "create", "--dry-run=server", "-f", "-", stdin=manifest)


def test_a_journal_holds_names_of_every_kind(cluster: Cluster) -> None:
    """Those that a table can have by Hive's grammar, from before it was ACID too."""
    names = ["base_-9223372036854775808", "base_0000003_v0000022", "delta_0000001_0000001_0004_v0000022"]
    names += ["delete_delta_0000004_0000004", "000000_0", "000000_0_copy_1", "HIVE_UNION_SUBDIR_15"]
    entry = ENTRY | {"obsolete": [{"name": name, "reason": "covered by base_0000009"} for name in names]}
    manifest = resource(cluster, "CompactionCleanup", CLEANUP | {"partitions": [entry]})
    cluster.output("kubectl", "create", "--dry-run=server", "-f", "-", stdin=manifest)


@pytest.mark.parametrize(("path", "value", "named"), BAD_HUDI_COMPACTIONS, ids=case_id)
def test_invalid_specs_for_hudi_tables_are_refused(cluster: Cluster, path: str, value: Any, named: str) -> None:
    """What does not go together for a Hudi table is said before anything is stored, by the field."""
    manifest = resource(cluster, "TableCompaction", changed(HUDI_COMPACTION, path, value))
    assert named in cluster.refusal("kubectl", "create", "--dry-run=server", "-f", "-", stdin=manifest)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"type": "Clean", "hudi": None, "partitions": ["2024"]}, "spec.partitions: Invalid value"),
        ({"type": "Archive", "hudi": {"mode": "Execute"}}, "spec.hudi.mode: Invalid value"),
        ({"type": "Archive", "hudi": {"clean": True}}, "spec.hudi.clean: Invalid value"),
        ({"type": "Clean"}, "spec.hudi: Invalid value: has metadataTable or maxLogFileSizeToMerge"),
        ({"type": "Clean", "hudi": None, "format": "HiveAcid"}, "spec.type: Invalid value: must match format"),
        ({"type": "Archive", "hudi": None, "cleanup": {"mode": "Never"}}, "spec.cleanup: Invalid value"),
    ],
    ids=case_id,
)
def test_what_does_not_apply_to_upkeep_is_refused(cluster: Cluster, changes: Manifest, named: str) -> None:
    manifest = resource(cluster, "TableCompaction", HUDI_COMPACTION | changes)
    assert named in cluster.refusal("kubectl", "create", "--dry-run=server", "-f", "-", stdin=manifest)


def test_the_metadata_table_is_for_the_driver_alone(cluster: Cluster) -> None:
    executors = {"spark": {"executors": {"instances": 2}}}
    manifest = resource(cluster, "TableCompaction", HUDI_COMPACTION | executors | {"hudi": {"metadataTable": True}})
    named = "spec.hudi.metadataTable: Invalid value: is for spark.executors.instances: 0"
    assert named in cluster.refusal("kubectl", "create", "--dry-run=server", "-f", "-", stdin=manifest)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"format": "Hudi", "partitions": ["2024/01", "day=1", "europe"]},
        {"hudi": {"metadataTable": True}},
        {"table": {"database": "lake", "name": "orders"}},
        {"table": {"location": "file:///warehouse/lake/orders"}},
        {"type": "Compaction", "hudi": {"clean": True, "archive": True}},
        {"type": "Compaction", "hudi": None},
        {"type": "Clean", "hudi": {"archive": True, "options": {"hoodie.clean.commits.retained": "10"}}},
        {"type": "Clean", "format": "Hudi", "hudi": None},
        {"type": "Archive", "hudi": None},
    ],
    ids=case_id,
)
def test_valid_specs_for_hudi_tables_are_taken(cluster: Cluster, changes: Manifest) -> None:
    """By location or by name, with Hudi's options or without."""
    manifest = resource(cluster, "TableCompaction", HUDI_COMPACTION | changes)
    cluster.output("kubectl", "create", "--dry-run=server", "-f", "-", stdin=manifest)


@pytest.mark.parametrize(
    ("kind", "field"),
    [("TableCompaction", field) for field in ("warehouse", "table", "type")]
    + [("CompactionCleanup", field) for field in CLEANUP if field != "suspend"]
    + [("CompactionPolicy", field) for field in ("warehouse", "tables")],
)
def test_required_fields(cluster: Cluster, kind: str, field: str) -> None:
    """Without any of them nothing can be done, and the API server says so."""
    manifest = resource(cluster, kind, {name: value for name, value in VALID[kind].items() if name != field})
    refused = cluster.refusal("kubectl", "create", "--dry-run=server", "-f", "-", stdin=manifest)
    assert f"spec.{field}: Required value" in refused


@pytest.fixture(scope="module")
def existing(cluster: Cluster) -> dict[str, Manifest]:
    """Make one of each that nothing acts on, and return them as the API server has them."""
    made = {}
    for kind, spec in (*VALID.items(), ("TableCompaction", HUDI_COMPACTION)):
        name = "existing-hudi" if spec is HUDI_COMPACTION else "existing"
        manifest = resource(cluster, kind, spec, name=name)
        made[kind if name == "existing" else name] = json.loads(
            cluster.output("kubectl", "create", "-o", "json", "-f", "-", stdin=manifest)
        )
    return made


CHANGES = [
    ("TableCompaction", "warehouse", "other"),
    ("TableCompaction", "table", {"name": "other"}),
    ("TableCompaction", "partitions", ["prt=p2"]),
    ("TableCompaction", "partitions", None),
    ("TableCompaction", "type", "Major"),
    ("TableCompaction", "cleanup", {"interval": "5s"}),
    ("TableCompaction", "cleanup", {"gracePeriod": "5s"}),
    ("TableCompaction", "spark", {"executors": {"instances": 3}}),
    ("TableCompaction", "retry", {"maxAttempts": 9}),
    ("TableCompaction", "deadline", "5h"),
    ("TableCompaction", "allowAutoCompaction", True),
    ("CompactionCleanup", "warehouse", "other"),
    ("CompactionCleanup", "operator", "other"),
    ("CompactionCleanup", "table", {"location": "/elsewhere"}),
    ("CompactionCleanup", "compaction", {"podUid": "other"}),
    ("CompactionCleanup", "partitions", [ENTRY | {"highestWriteId": 4}]),
    ("CompactionCleanup", "lockIds", [1]),
    ("CompactionCleanup", "interval", "5s"),
    ("CompactionCleanup", "gracePeriod", "5s"),
    ("CompactionCleanup", "mode", "Never"),
    ("CompactionCleanup", "readers", "Locks"),
    ("CompactionCleanup", "deadline", "5s"),
    ("CompactionCleanup", "quarantine", "5s"),
    ("CompactionPolicy", "warehouse", "other"),
]


@pytest.mark.parametrize(("kind", "field", "value"), CHANGES, ids=case_id)
def test_a_spec_is_immutable(
    cluster: Cluster, existing: dict[str, Manifest], kind: str, field: str, value: Any
) -> None:
    """What was asked for, or recorded, stays: fields cannot be changed, added or taken away."""
    assert existing[kind]["metadata"]["generation"] == 1
    refused = cluster.refusal(*patch(cluster, kind, {"spec": {field: value}}))
    assert f"spec.{field}" in refused
    assert "immutable" in refused


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("table", {"location": "/elsewhere"}),
        ("type", "Compaction"),
        ("format", "Hudi"),
        ("hudi", {"singleWriter": True}),
        ("hudi", {"options": {"hoodie.log.compaction.blocks.threshold": "5"}}),
        ("hudi", None),
    ],
    ids=case_id,
)
def test_what_is_asked_of_a_hudi_table_is_immutable(
    cluster: Cluster, existing: dict[str, Manifest], field: str, value: Any
) -> None:
    """Hudi's own options too: they may have been acted on."""
    assert existing["existing-hudi"]["spec"]["format"] == "Auto"
    change = patch(cluster, "TableCompaction", {"spec": {field: value}}, name="existing-hudi")
    refused = cluster.refusal(*change)
    assert any(f"spec.{field}: " in line and "is immutable" in line for line in refused.splitlines())


@pytest.mark.parametrize("kind", ["TableCompaction", "CompactionCleanup"])
def test_suspend_may_be_changed(cluster: Cluster, existing: dict[str, Manifest], kind: str) -> None:
    """The one switch that a user has on something that exists already."""
    assert existing[kind]["spec"]["suspend"] is True
    cluster.output(*patch(cluster, kind, {"spec": {"suspend": False}}))


def test_a_plan_may_be_approved(cluster: Cluster, existing: dict[str, Manifest]) -> None:
    """The other switch, on a cleanup."""
    assert existing["CompactionCleanup"]["spec"]["approved"] is False
    cluster.output(*patch(cluster, "CompactionCleanup", {"spec": {"approved": True}}))


def patch(cluster: Cluster, kind: str, value: Manifest, *options: str, name: str = "existing") -> list[str]:
    name = f"{kind.lower()}.compaction.dev/{name}"
    how = options or ("--dry-run=server",)
    patched = ["kubectl", "--namespace", cluster.namespace, "patch", name, "--type=merge", *how]
    return [*patched, "--patch", json.dumps(value)]


def test_a_baseline_is_stored_once(cluster: Cluster, existing: dict[str, Manifest]) -> None:
    """Who counts as a reader from before is decided once: no later write may forget a reader."""
    assert "status" not in existing["CompactionCleanup"]
    baseline = {"time": "2024-01-01T00:00:00Z", "txnHighWaterMark": 7, "lockIds": [3, 4]}
    status = ["--subresource=status"]
    cluster.output(*patch(cluster, "CompactionCleanup", {"status": {"baseline": baseline, "blockerCount": 2}}, *status))
    for change in ({"lockIds": [3]}, {"txnHighWaterMark": 6}, {"time": "2023-01-01T00:00:00Z"}, None):
        refused = cluster.refusal(*patch(cluster, "CompactionCleanup", {"status": {"baseline": change}}, *status))
        assert "status.baseline" in refused, change
    cluster.output(*patch(cluster, "CompactionCleanup", {"status": {"blockerCount": 1}}, *status))


def test_kubectl_get_tells_the_story(cluster: Cluster, existing: dict[str, Manifest]) -> None:
    """Short names, category and columns."""
    assert existing
    get = ("kubectl", "--namespace", cluster.namespace, "get")
    assert (
        columns(cluster.output(*get, "tcomp")) == "NAME DATABASE TABLE TYPE PHASE PROGRESS ATTEMPT REASON CLEANUP AGE"
    )
    location = HUDI_COMPACTION["table"]["location"]
    assert location in cluster.output(*get, "tcomp", "existing-hudi", "--no-headers").split()
    assert columns(cluster.output(*get, "ccl")) == "NAME DATABASE TABLE PHASE DELETED AGE MESSAGE"
    wide = columns(cluster.output(*get, "tcomp", "-o", "wide"))
    assert wide.endswith("AGE WAREHOUSE ROWS IN ROWS OUT JOB MESSAGE")
    both = cluster.output(*get, "compaction", "-o", "name").split()
    assert both == [
        "compactioncleanup.compaction.dev/existing",
        "compactionpolicy.compaction.dev/existing",
        "tablecompaction.compaction.dev/existing",
        "tablecompaction.compaction.dev/existing-hudi",
    ]


def columns(table: str) -> str:
    return " ".join(table.splitlines()[0].split())


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("tcomp", "TableCompaction compacts a table once"),
        ("tcomp.spec.partitions", "is written as in Hive"),
        ("tcomp.spec.hudi.maxLogFileSizeToMerge", "skips log files larger than this"),
        ("tcomp.status.hudi.nothingPlanned", "Why there was nothing to do"),
        ("tcomp.spec.spark.executors.instances", "the driver does the work itself"),
        ("ccl.spec.partitions.obsolete.reason", "The reason why it is obsolete"),
        ("ccl.status.blockers", "The first 20 older readers"),
    ],
)
def test_kubectl_explains(cluster: Cluster, path: str, said: str) -> None:
    """Every field can be looked up where it is used."""
    assert said in " ".join(cluster.output("kubectl", "explain", path).split())
