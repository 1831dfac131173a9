"""The chart and the manifests agree with the models, the CRDs and each other. Rendering is tested on the cluster."""

import json
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import kubernetes
import pytest
import yaml
from pydantic import BaseModel, ValidationError
from sandbox import chart_readme

from compaction_operator import __version__
from compaction_operator.api.compaction import PLURAL, Readers, TableCompactionSpec
from compaction_operator.api.config import (
    COLLECTOR_PATTERN,
    HOST_PATTERN,
    LOCATION_PATTERN,
    CleanupSettings,
    HidingLock,
    HudiSettings,
    Kerberos,
    LogSettings,
    Metastore,
    OperatorConfig,
    QueuePool,
    SparkProfile,
    Tls,
    TracingSettings,
    UiSettings,
    Volume,
    Warehouse,
)
from compaction_operator.api.model import DURATION_PATTERN
from compaction_operator.api.placement import (
    KEY_PATTERN,
    LABEL_VALUE_PATTERN,
    MOUNT_PATTERN,
    NAME_PATTERN,
    OBJECT_NAME_PATTERN,
    OWN_KEYS,
    OWN_PATHS,
    OWN_VARIABLES,
    OWN_VOLUMES,
    VARIABLE_PATTERN,
    ExtraMount,
    ExtraVolume,
    KeyRef,
    Placement,
    ValueFrom,
    Variable,
)
from compaction_operator.api.policy import Template
from compaction_operator.api.stores import (
    ENDPOINT_PATTERN,
    S3,
    Hdfs,
    KerberosLogin,
    S3Connection,
    Secret,
    StoreSettings,
)
from compaction_operator.controller.kube.resources import read_compaction, read_policy
from compaction_operator.controller.permissions import policy_refusal, refusal
from tests.unit.controller.sandbox import compaction_raw

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "compaction-operator"
SAMPLES = ROOT / "manifests" / "samples"
POLICY = SAMPLES / "policy.yaml"
CRDS = sorted(path.name for path in (ROOT / "crds").glob("compaction.dev_*.yaml"))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def values_schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    return found


def test_the_chart_holds_the_crds() -> None:
    """The chart's copies are those of crds/: after a change there, `make crds`."""
    assert sorted(path.name for path in (CHART / "files" / "crds").iterdir()) == CRDS
    for name in CRDS:
        assert (CHART / "files" / "crds" / name).read_bytes() == (ROOT / "crds" / name).read_bytes(), (
            f"{name}: run make crds"
        )


def test_artifact_hub_knows_the_crds() -> None:
    """Each by its name, kind and version."""
    told = yaml.safe_load(load(CHART / "Chart.yaml")["annotations"]["artifacthub.io/crds"])
    crds = [load(ROOT / "crds" / name) for name in CRDS]
    expected = {
        (crd["metadata"]["name"], crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]["name"]) for crd in crds
    }
    assert {(one["name"], one["kind"], one["version"]) for one in told} == expected


def artifact_hub(key: str) -> Any:
    """Return an annotation of the chart that is YAML itself."""
    return yaml.safe_load(load(CHART / "Chart.yaml")["annotations"][f"artifacthub.io/{key}"])


def test_artifact_hub_shows_samples() -> None:
    """Those that serve as the first of their kind. A cleanup has none, as only the operator makes one."""
    assert artifact_hub("crdsExamples") == [load(SAMPLES / "minor.yaml"), load(POLICY)]


def test_artifact_hub_knows_the_images_of_the_version() -> None:
    version, default = load(CHART / "Chart.yaml")["appVersion"], load(CHART / "values.yaml")["image"]["repository"]
    names = [default, f"{default}-controller"]
    assert [(one["name"], one["image"]) for one in artifact_hub("images")] == [(n, f"{n}:{version}") for n in names]


def test_artifact_hub_links_to_what_there_is() -> None:
    """And to the repository that the bundle for Operator Lifecycle Manager names."""
    for link in artifact_hub("links"):
        repository, _, path = link["url"].partition("/tree/main/")
        assert repository == "https://github.com/YOUR/compaction-operator"
        assert (ROOT / path).exists(), link


def test_artifact_hub_names_what_changed() -> None:
    """The first release adds everything: the changelog's headings without what only developers notice."""
    added = (ROOT / "CHANGELOG.md").read_text().split("\n### ")[1]
    headings = [one for one in re.findall(r"^#### (.*)$", added, re.MULTILINE) if one != "Development"]
    assert artifact_hub("changes") == [{"kind": "added", "description": one} for one in headings]


def test_kustomize_installs_all_crds() -> None:
    """None is forgotten in crds/kustomization.yaml."""
    assert load(ROOT / "crds" / "kustomization.yaml")["resources"] == CRDS


@pytest.mark.parametrize(
    ("model", "definition"),
    [(Warehouse, ("definitions", "warehouse")), (SparkProfile, ("definitions", "profile")),
     (CleanupSettings, ("properties", "cleanup")), (LogSettings, ("properties", "log")),
     (TracingSettings, ("properties", "tracing")), (UiSettings, ("properties", "ui"))],
)  # fmt: skip
def test_values_have_the_fields_of_the_configuration(model: type[BaseModel], definition: tuple[str, str]) -> None:
    """Whatever the operator can be told can be set with Helm, and nothing else."""
    schema = values_schema()[definition[0]][definition[1]]
    fields = model.model_json_schema()
    assert set(schema["properties"]) == set(fields["properties"])
    # An absent image means the operator's own, which the chart fills in.
    assert set(schema.get("required", [])) == set(fields.get("required", [])) - {"image"}


@pytest.mark.parametrize(
    ("path", "model"),
    [
        (("metastore",), Metastore),
        (("volume",), Volume),
        (("hudi",), HudiSettings),
        (("queue",), QueuePool),
        (("queue", "template"), Template),
        (("metastore", "tls"), Tls),
        (("metastore", "kerberos"), Kerberos),
        (("metastore", "secret"), Secret),
        (("stores",), StoreSettings),
        (("stores", "hdfs"), Hdfs),
        (("stores", "hdfs", "kerberos"), KerberosLogin),
        (("stores", "hdfs", "secret"), Secret),
        (("stores", "s3"), S3),
        (("stores", "s3", "secret"), Secret),
    ],
    ids=lambda part: part.__name__ if isinstance(part, type) else None,
)
def test_values_have_the_fields_of_a_warehouse(path: tuple[str, ...], model: type[BaseModel]) -> None:
    """The nested fields too."""
    definitions = values_schema()["definitions"]
    schema = definitions["warehouse"]
    for name in path:
        schema = schema["properties"][name]
        schema = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    fields = model.model_json_schema()
    assert set(schema["properties"]) == set(fields["properties"])
    assert set(schema.get("required", [])) == set(fields.get("required", []))


@pytest.mark.parametrize(
    ("definition", "model"),
    [("placement", Placement), ("variable", Variable), ("keyRef", KeyRef), ("extraVolume", ExtraVolume),
     ("extraMount", ExtraMount)],
)  # fmt: skip
def test_values_have_the_fields_of_what_a_profile_adds_to_pods(definition: str, model: type[BaseModel]) -> None:
    """And those of both roles are those of one."""
    schema, fields = values_schema()["definitions"][definition], model.model_json_schema()
    assert set(schema["properties"]) == set(fields["properties"])
    assert set(schema.get("required", [])) == set(fields.get("required", []))
    profile = values_schema()["definitions"]["profile"]["properties"]
    if model is Placement:
        assert {name: profile[name] for name in schema["properties"]} == schema["properties"]
    if model is Variable:
        assert set(schema["properties"]["valueFrom"]["properties"]) == set(ValueFrom.model_json_schema()["properties"])


def test_the_chart_knows_the_names_and_patterns_of_the_models() -> None:
    """What it takes the operator takes, and what the operator refuses as its own the chart does, too."""
    known = values_schema()["definitions"]
    assert known["key"]["pattern"] == KEY_PATTERN
    assert known["labels"]["additionalProperties"]["pattern"] == LABEL_VALUE_PATTERN
    assert known["variable"]["properties"]["name"]["pattern"] == VARIABLE_PATTERN
    assert known["extraMount"]["properties"]["mountPath"]["pattern"] == MOUNT_PATTERN
    assert (known["name"]["pattern"], known["objectName"]["pattern"]) == (NAME_PATTERN, OBJECT_NAME_PATTERN)
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    assert f"$ownKeys := `{OWN_KEYS}`" in helpers
    assert f"$ownVariables := `{OWN_VARIABLES}`" in helpers
    for names in (OWN_VOLUMES, OWN_PATHS):
        assert " ".join(f'"{name}"' for name in names) in helpers


def test_values_have_the_fields_of_a_bucket() -> None:
    """It has the same settings as all buckets together."""
    definitions = values_schema()["definitions"]
    buckets = definitions["warehouse"]["properties"]["stores"]["properties"]["s3"]["properties"]["buckets"]
    fields = definitions[buckets["additionalProperties"]["$ref"].rpartition("/")[2]]["properties"]
    assert set(fields) == set(S3Connection.model_json_schema()["properties"])
    assert fields["endpoint"]["pattern"] == ENDPOINT_PATTERN
    shared = definitions["warehouse"]["properties"]["stores"]["properties"]["s3"]["properties"]
    assert {name: shared[name] for name in fields} == fields


def test_values_durations_are_the_models() -> None:
    """A duration that the chart accepts is one that the operator can read."""
    assert values_schema()["definitions"]["duration"]["pattern"] == DURATION_PATTERN


def test_values_locations_are_the_models() -> None:
    """So are the folders in which tables may lie, and those in which they may be named by location."""
    schema = values_schema()["definitions"]
    assert schema["locations"]["items"]["pattern"] == LOCATION_PATTERN
    warehouse = schema["warehouse"]["properties"]
    assert warehouse["locations"] == warehouse["hudi"]["properties"]["locations"] == {"$ref": "#/definitions/locations"}
    assert warehouse["receipts"]["properties"]["location"]["pattern"] == LOCATION_PATTERN


def test_the_endpoint_of_traces_is_the_models() -> None:
    """An address that the chart accepts is one that the operator takes."""
    endpoint = values_schema()["properties"]["tracing"]["properties"]["endpoint"]
    assert endpoint == {"type": "string", "pattern": COLLECTOR_PATTERN}


@pytest.mark.parametrize(
    ("host", "fits"),
    [("localhost", True), ("page.example.", True), ("::1", True), ("10.0.0.1", True), ("*", False),
     ("*.example", False), ("page.example:8082", False), ("http://page", False), ("two names", False), ("", False)],
)  # fmt: skip
def test_a_host_of_the_web_page_is_a_name(host: str, *, fits: bool) -> None:
    """A wildcard would be compared as it stands, and let no browser in."""
    assert values_schema()["properties"]["ui"]["properties"]["hosts"]["items"]["pattern"] == HOST_PATTERN
    with nullcontext() if fits else pytest.raises(ValidationError):
        UiSettings(hosts=(host,))


def test_the_values_know_each_lock_to_hide_directories_under_and_each_rule_of_readers() -> None:
    warehouse = values_schema()["definitions"]["warehouse"]["properties"]
    assert warehouse["hidingLock"]["enum"] == list(HidingLock)
    assert warehouse["readers"]["items"]["enum"] == list(Readers)


def test_default_values_are_the_models_defaults() -> None:
    """An operator from the chart behaves as one with an empty configuration would."""
    values = load(CHART / "values.yaml")
    profiles = [{"image": "an-image", **profile} for profile in values["profiles"]]
    configuration = {
        name: values[name] for name in ("warehouses", "cleanup", "maxConcurrentJobs", "jobTtl", "log", "tracing", "ui")
    }
    assert OperatorConfig.model_validate({**configuration, "profiles": profiles}) == OperatorConfig(
        warehouses=(), profiles=(SparkProfile(name="default", image="an-image"),)
    )


def test_the_example_in_the_values_is_understood() -> None:
    """What an administrator makes of the comment is a configuration that the operator takes."""
    _, begin, rest = (CHART / "values.yaml").read_text().partition("# warehouses:\n")
    comment = begin + rest.partition("\nwarehouses: []\n")[0]
    example = yaml.safe_load("\n".join(line.removeprefix("#").removeprefix(" ") for line in comment.splitlines()))
    (warehouse,) = OperatorConfig.model_validate({**example, "profiles": []}).warehouses
    assert warehouse.volume is not None
    assert set(warehouse.stores.to_json()) == {"hdfs", "s3"}


def test_the_document_defaults() -> None:
    """The openLooKeng document's hive.compaction-cleanup-interval is 2000 ms, hive-compaction-cleanup-threads is 2."""
    cleanup = load(CHART / "values.yaml")["cleanup"]
    assert (cleanup["interval"], cleanup["threads"]) == ("2000ms", 2)


def test_a_misspelt_value_is_refused() -> None:
    """At any depth; so none of ours may be missing in the schema."""
    schema = values_schema()
    assert set(schema["properties"]) - {"global"} == set(load(CHART / "values.yaml"))
    with_fields = [node for node in nodes(schema) if isinstance(node.get("properties"), dict)]
    assert len(with_fields) > 20
    assert all(node["additionalProperties"] is False for node in with_fields)


def nodes(part: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a JSON document."""
    if isinstance(part, dict):
        yield part
    for child in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from nodes(child)


def schema_paths(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all values of a schema."""
    definitions = values_schema()["definitions"]

    def resolved(part: Mapping[str, Any]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = definitions[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        return found

    for name, child in node.get("properties", {}).items():
        part = resolved(child)
        yield f"{prefix}{name}"
        yield from schema_paths(part, f"{prefix}{name}.")
        yield from schema_paths(resolved(part.get("items", {})), f"{prefix}{name}[].")


def test_every_value_is_documented() -> None:
    """In the chart's README, which `make chart-readme` writes from the comments of values.yaml."""
    text = (CHART / "values.yaml").read_text()
    assert (CHART / "README.md").read_text() == chart_readme.readme(text), "run make chart-readme"
    documented = {value.path for value in chart_readme.values(text) if value.comment}
    known = {
        path for path in schema_paths(values_schema()) if path != "global" and not path.startswith(chart_readme.FREE)
    }
    assert known <= documented
    assert not {path for path in documented - known if not path.startswith(chart_readme.FREE)}


class Metrics(BaseHTTPRequestHandler):
    """Answers as the controller's port does."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"compaction_operator_compactions 0\n")

    def log_message(self, *_: Any) -> None: ...


def test_helms_test_says_what_cannot_be_reached(tmp_path: Path) -> None:
    """One process of a metastore suffices. The script is the one that the chart's pod runs."""
    with HTTPServer(("127.0.0.1", 0), Metrics) as server, socket.socket() as closed:
        Thread(target=server.serve_forever, daemon=True).start()
        closed.bind(("127.0.0.1", 0))  # but it does not listen
        here, away = (f"thrift://127.0.0.1:{port}" for port in (server.server_port, closed.getsockname()[1]))
        metastores = {"main": [away, here], "other": [away]}
        config = {"warehouses": [{"name": name, "metastore": {"uris": uris}} for name, uris in metastores.items()]}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        environment = {"CONFIG": str(tmp_path / "config.yaml"), "METRICS": f"http://127.0.0.1:{server.server_port}"}
        script = (CHART / "files" / "helm_test.py").read_text()
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
        )
        server.shutdown()
    said = done.stdout.splitlines()
    assert said[:2] == ["controller: ok", "metastore of main: ok"]
    assert said[2].startswith(f"metastore of other: {away}: ")
    assert (done.returncode, len(said)) == (1, 3)


def test_the_sample_of_a_policy_is_understood() -> None:
    """It asks for something that the sample warehouse allows, in fields that exist, and creates nothing yet."""
    config = OperatorConfig.model_validate(load(SAMPLES / "warehouse" / "config.yaml"))
    sample = load(POLICY)
    policy = read_policy(sample | {"metadata": compaction_raw(namespace="analytics")["metadata"]})
    assert policy_refusal(policy, config) is None
    assert set(sample["spec"]) <= set(policy.spec.to_json())
    assert policy.spec.dry_run


@pytest.mark.parametrize("path", sorted({*SAMPLES.glob("*.yaml")} - {POLICY}), ids=lambda path: path.stem)
def test_samples_are_understood(path: Path) -> None:
    """Each sample asks for something of the sample warehouse that it allows, in fields that exist."""
    config = OperatorConfig.model_validate(load(SAMPLES / "warehouse" / "config.yaml"))
    (sample,) = compactions(path)
    spec = TableCompactionSpec.model_validate(sample["spec"])
    raw = sample | {"metadata": compaction_raw(namespace="analytics")["metadata"]}
    assert refusal(read_compaction(raw), config) is None
    assert set(sample["spec"]) <= set(spec.to_json())
    assert set(sample["spec"].get("hudi", {})) <= set(spec.hudi.to_json() if spec.hudi else ())


def compactions(path: Path) -> list[dict[str, Any]]:
    """Return the compactions that a sample holds, or that its schedule makes."""
    manifests = list(yaml.safe_load_all(path.read_text()))
    kept = [yaml.safe_load(text) for one in manifests if one["kind"] == "ConfigMap" for text in one["data"].values()]
    return [one for one in (*manifests, *kept) if one["kind"] == "TableCompaction"]


class Api:
    """An API server that knows compactions by name."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self.uids = iter("abc")

    def get_namespaced_custom_object(self, *place: str) -> dict[str, Any]:
        *where, name = place
        assert where == ["compaction.dev", "v1alpha1", "analytics", PLURAL]
        if name not in self.made:
            raise kubernetes.client.ApiException(status=404)
        return self.made[name]

    def delete_namespaced_custom_object(self, *place: str, body: kubernetes.client.V1DeleteOptions) -> None:
        assert body.preconditions.uid == self.get_namespaced_custom_object(*place)["metadata"]["uid"]
        del self.made[place[-1]]

    def create_namespaced_custom_object(self, *place: Any) -> None:
        body = place[-1]
        assert body["metadata"]["name"] not in self.made
        self.made[body["metadata"]["name"]] = body | {"metadata": {**body["metadata"], "uid": next(self.uids)}}


def test_a_scheduled_run_replaces_only_a_compaction_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However long it takes: until then runs of the CronJob leave it alone. Its role allows no more than that."""
    config, schedule, _, role = list(yaml.safe_load_all((SAMPLES / "hudi-schedule.yaml").read_text()))[:4]
    (container,) = schedule["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    (tmp_path / "compaction.yaml").write_text(config["data"]["compaction.yaml"])
    script = container["command"][2].replace(container["volumeMounts"][0]["mountPath"], str(tmp_path))
    api = Api()
    monkeypatch.setattr(kubernetes.config, "load_incluster_config", lambda: None)
    monkeypatch.setattr(kubernetes.client, "CustomObjectsApi", lambda: api)
    monkeypatch.setenv(*(container["env"][0]["name"], "analytics"))
    exec(script, {})
    ((name, made),) = api.made.items()
    for status in ({}, {"status": {"phase": "Running"}}, {"status": {"phase": "Waiting"}}):
        made |= status
        with pytest.raises(SystemExit) as ended:
            exec(script, {})
        assert not ended.value.code
    assert capsys.readouterr().out == f"{name} has not ended: nothing to do\n" * 3
    assert api.made == {name: made}
    for phase in ("Succeeded", "Failed"):
        api.made[name]["status"] = {"phase": phase}
        exec(script, {})
    assert api.made[name]["metadata"] == {"name": name, "uid": "c"}
    assert [(rule.get("resourceNames"), rule["verbs"]) for rule in role["rules"]] == [
        (None, ["create"]),
        ([name], ["get", "delete"]),
    ]


@pytest.mark.parametrize("path", sorted(SAMPLES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_nothing_owns_what_a_sample_makes(path: Path) -> None:
    """Kubernetes would delete it with its owner, and work on a table with it."""
    assert "ownerReferences" not in path.read_text()


def test_sample_warehouse_is_the_same_for_helm_and_kustomize() -> None:
    """values.yaml and config.yaml of the sample say the same, and the operator can read it."""
    config = load(SAMPLES / "warehouse" / "config.yaml")
    assert config["warehouses"] == load(SAMPLES / "warehouse" / "values.yaml")["warehouses"]
    assert OperatorConfig.model_validate(config).warehouse("main") is not None


def test_versions_agree() -> None:
    """One version: of the Python project, the chart, and the image that chart and manifests run."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = load(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"], __version__) == (version, version, version)
    for path in ("default/config.yaml", "samples/warehouse/config.yaml"):
        assert load(ROOT / "manifests" / path)["profiles"][0]["image"] == f"compaction-operator:{version}"
    assert f"image: compaction-operator:{version}\n" in (SAMPLES / "hudi-schedule.yaml").read_text()
