"""Writes OLM's bundle from manifests/default, crds/ and the chart: `python -m sandbox.olm.bundle [IMAGE]`."""

import base64
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from compaction_operator import __version__

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "manifests" / "olm"
DEFAULT = ROOT / "manifests" / "default"
CHART = ROOT / "charts" / "compaction-operator" / "Chart.yaml"
NAME = "compaction-operator"
IMAGE = f"YOUR/{NAME}:{__version__}"
HOME = f"https://github.com/YOUR/{NAME}"
EXAMPLES = ("minor", "policy")
"""Samples that a console offers. NB: none of a CompactionCleanup, as only the operator creates these."""
HEAD = "# Written by `make olm`.\n"
_SCOPE = "operators.operatorframework.io"
ANNOTATIONS = {
    f"{_SCOPE}.bundle.mediatype.v1": "registry+v1",
    f"{_SCOPE}.bundle.manifests.v1": "manifests/",
    f"{_SCOPE}.bundle.metadata.v1": "metadata/",
    f"{_SCOPE}.bundle.package.v1": NAME,
    f"{_SCOPE}.bundle.channels.v1": "alpha",
    f"{_SCOPE}.bundle.channel.default.v1": "alpha",
}
Manifest = dict[str, Any]


def files(image: str = IMAGE) -> dict[str, str]:
    """Return the bundle's files by their path in manifests/olm, for an image of the operator."""
    objects = list(_objects())
    found = {f"manifests/{path.name}": path.read_text() for path in sorted((ROOT / "crds").glob("compaction.dev_*"))}
    for one in _plain(objects):
        found[f"manifests/{one['metadata']['name']}_{one['kind'].lower()}.yaml"] = _text(one)
    found[f"manifests/{NAME}.clusterserviceversion.yaml"] = _text(service_version(objects, image))
    found["metadata/annotations.yaml"] = _text({"annotations": ANNOTATIONS})
    found["bundle.Dockerfile"] = _dockerfile()
    return found


def _objects() -> Iterator[Manifest]:
    """Yield the objects of manifests/default that are of a namespace or the cluster, with their labels."""
    kustomization = yaml.safe_load((DEFAULT / "kustomization.yaml").read_text())
    labels = kustomization["labels"][0]["pairs"]
    for name in ("rbac.yaml", "controller.yaml"):
        for one in yaml.safe_load_all((DEFAULT / name).read_text()):
            metadata = one["metadata"]
            # NB: OLM puts objects into the namespace of the install.
            metadata.pop("namespace", None)
            metadata["labels"] = labels | metadata.get("labels", {})
            yield one


def _plain(objects: list[Manifest]) -> Iterator[Manifest]:
    """Yield what the bundle has as it is: all but what OLM makes from the ClusterServiceVersion."""
    granted = {binding["roleRef"]["name"] for binding in objects if binding["kind"].endswith("Binding")}
    for one in objects:
        made = one["kind"] in {"ServiceAccount", "Deployment", "ClusterRoleBinding", "RoleBinding"}
        if not made and not (one["kind"].endswith("Role") and one["metadata"]["name"] in granted):
            yield one


def service_version(objects: list[Manifest], image: str) -> Manifest:
    """Return the ClusterServiceVersion."""
    chart = yaml.safe_load(CHART.read_text())
    metadata = {"name": f"{NAME}.v{__version__}", "annotations": _annotations(chart, image)}
    spec = {**_about(chart), **_kinds(chart), **_install(objects, image)}
    head = {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion"}
    return {**head, "metadata": metadata, "spec": spec}


def _annotations(chart: Mapping[str, Any], image: str) -> dict[str, str]:
    examples = [yaml.safe_load((ROOT / f"manifests/samples/{name}.yaml").read_text()) for name in EXAMPLES]
    return {
        "alm-examples": json.dumps(examples, indent=2),
        "capabilities": chart["annotations"]["artifacthub.io/operatorCapabilities"],
        "categories": "Big Data, Database",
        "containerImage": image,
        "description": chart["description"],
        "repository": HOME,
        "support": HOME,
        f"{_SCOPE}/internal-objects": json.dumps(["compactioncleanups.compaction.dev"]),
    }


def _about(chart: Mapping[str, Any]) -> Manifest:
    icon = base64.b64encode((FOLDER / "icon.svg").read_bytes()).decode()
    return {
        "displayName": "Compaction of Hive and Hudi tables",
        "description": (FOLDER / "description.md").read_text(),
        "version": __version__,
        "minKubeVersion": chart["kubeVersion"].removeprefix(">=").removesuffix("-0"),
        "maturity": "alpha",
        "keywords": chart["keywords"],
        "provider": {"name": f"the {NAME} authors", "url": HOME},
        "links": [{"name": "Documentation", "url": f"{HOME}/tree/main/docs"}],
        "icon": [{"base64data": icon, "mediatype": "image/svg+xml"}],
    }


def _kinds(chart: Mapping[str, Any]) -> Manifest:
    kinds = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    return {"customresourcedefinitions": {"owned": sorted(kinds, key=lambda kind: str(kind["name"]))}}


def _install(objects: list[Manifest], image: str) -> Manifest:
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["image"] = image
    made = {"name": NAME, "label": deployment["metadata"]["labels"], "spec": deployment["spec"]}
    grants = {"clusterPermissions": _granted(objects, "Cluster"), "permissions": _granted(objects, "")}
    # NB: it watches all namespaces, and acts in those of its warehouses.
    modes = {"OwnNamespace": False, "SingleNamespace": False, "MultiNamespace": False, "AllNamespaces": True}
    return {
        "installModes": [{"type": name, "supported": supported} for name, supported in modes.items()],
        "install": {"strategy": "deployment", "spec": {**grants, "deployments": [made]}},
        "relatedImages": [{"name": NAME, "image": image}],
    }


def _granted(objects: list[Manifest], scope: str) -> list[Manifest]:
    """Return the rules of the roles that manifests/default binds to the controller's account."""
    rules = {one["metadata"]["name"]: one["rules"] for one in objects if one["kind"] == f"{scope}Role"}
    bound = [one for one in objects if one["kind"] == f"{scope}RoleBinding"]
    return [{"serviceAccountName": NAME, "rules": rules[one["roleRef"]["name"]]} for one in bound]


def _dockerfile() -> str:
    labels = "".join(f"LABEL {name}={value}\n" for name, value in ANNOTATIONS.items())
    return f"{HEAD}FROM scratch\n{labels}COPY manifests /manifests/\nCOPY metadata /metadata/\n"


def _text(manifest: Mapping[str, Any]) -> str:
    return HEAD + yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=110)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _string)


if __name__ == "__main__":
    for path, text in files(*sys.argv[1:2]).items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text)
