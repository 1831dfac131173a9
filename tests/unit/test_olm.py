"""OLM's bundle is that of manifests/default, crds/ and the chart. `make test-olm` asks OLM's own validator."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from sandbox.olm import bundle

VERSION = f"manifests/{bundle.NAME}.clusterserviceversion.yaml"
SOURCES = {"description.md", "icon.svg"}


def default(kind: str) -> list[dict[str, Any]]:
    """Return the objects of a kind in manifests/default."""
    texts = [(bundle.DEFAULT / name).read_text() for name in ("rbac.yaml", "controller.yaml")]
    return [one for text in texts for one in yaml.safe_load_all(text) if one["kind"] == kind]


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return bundle.files()


@pytest.fixture(scope="module")
def spec(written: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(written[VERSION])["spec"]
    return found


def test_the_bundle_is_written(written: dict[str, str]) -> None:
    """`make olm` writes each file, and no other is there."""
    paths = [path for path in bundle.FOLDER.rglob("*") if path.is_file()]
    there = {str(path.relative_to(bundle.FOLDER)): path.read_text() for path in paths}
    assert {path: text for path, text in there.items() if path not in SOURCES} == written


def test_the_controller_is_that_of_the_manifests(spec: dict[str, Any]) -> None:
    """Apart from its image: its probes, limits and user are OLM's business as little as Helm's."""
    (deployment,) = default("Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = bundle.IMAGE
    (made,) = spec["install"]["spec"]["deployments"]
    assert (made["name"], made["spec"]) == (deployment["metadata"]["name"], deployment["spec"])


def test_the_account_has_the_rights_of_the_manifests(spec: dict[str, Any]) -> None:
    """No more and no less. OLM makes the account."""
    for field, scope in (("clusterPermissions", "Cluster"), ("permissions", "")):
        bound = {one["roleRef"]["name"] for one in default(f"{scope}RoleBinding")}
        rules = [one["rules"] for one in default(f"{scope}Role") if one["metadata"]["name"] in bound]
        granted = spec["install"]["spec"][field]
        assert [one["rules"] for one in granted] == rules != []
        assert {one["serviceAccountName"] for one in granted} == {bundle.NAME}
    assert {subject["name"] for one in default("ClusterRoleBinding") for subject in one["subjects"]} == {bundle.NAME}


def test_nothing_of_the_manifests_is_left_out(written: dict[str, str]) -> None:
    """What OLM does not make itself is in the bundle, in the namespace of the install."""
    there = [yaml.safe_load(text) for path, text in written.items() if path.startswith("manifests/")]
    names = {(one["kind"], one["metadata"]["name"]) for one in there}
    for kind in ("ClusterRole", "Role", "Service", "PodDisruptionBudget"):
        bound = {one["roleRef"]["name"] for one in default(f"{kind}Binding")}
        expected = {(kind, name) for one in default(kind) if (name := one["metadata"]["name"]) not in bound}
        assert {name for name in names if name[0] == kind} == expected
    assert not [one for one in there if "namespace" in one["metadata"]]


def test_the_configuration_is_the_users(written: dict[str, str], spec: dict[str, Any]) -> None:
    """OLM puts an object of a bundle back at each upgrade. So the bundle has none, and says which to create."""
    volumes = spec["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["volumes"]
    (name,) = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
    assert f"`{name}`" in spec["description"]
    assert f"create configmap {name} -n {bundle.NAME}" in (bundle.ROOT / "docs" / "install.md").read_text()
    assert not [path for path in written if "configmap" in path]


def test_another_image_is_everywhere() -> None:
    """`make olm IMAGE=…`"""
    text = bundle.files("registry.example.com/a@sha256:0123")[VERSION]
    found = yaml.safe_load(text)
    container = found["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]
    images = {container["image"], found["metadata"]["annotations"]["containerImage"]}
    assert images | {one["image"] for one in found["spec"]["relatedImages"]} == {"registry.example.com/a@sha256:0123"}
    assert bundle.IMAGE not in text


def test_the_sample_installs_the_bundles_package() -> None:
    """In the namespace that manifests/tenant gives the rights to, for all namespaces, as the bundle requires."""
    text = (Path(bundle.ROOT) / "manifests/samples/olm/install.yaml").read_text()
    group, subscription = yaml.safe_load_all(text)
    (binding,) = [
        one
        for one in yaml.safe_load_all((bundle.ROOT / "manifests/tenant/controller-role.yaml").read_text())
        if one["kind"] == "RoleBinding"
    ]
    (subject,) = binding["subjects"]
    assert {one["metadata"]["namespace"] for one in (group, subscription)} == {subject["namespace"]}
    assert group["spec"] == {}
    asked = (subscription["spec"]["name"], subscription["spec"]["channel"])
    names = ("package.v1", "channel.default.v1")
    assert asked == tuple(bundle.ANNOTATIONS[f"operators.operatorframework.io.bundle.{name}"] for name in names)
