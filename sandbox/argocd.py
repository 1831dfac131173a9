"""Writes Argo CD's ConfigMap from the Lua of manifests/argocd: `python -m sandbox.argocd`."""

from pathlib import Path

import yaml

FOLDER = Path(__file__).parents[1] / "manifests" / "argocd"
CONFIG = FOLDER / "argocd-cm.yaml"
HEAD = """\
# Health checks and actions of the operator's resources for Argo CD, written by `make argocd` from the Lua beside it:
# kubectl patch configmap argocd-cm -n argocd --patch-file manifests/argocd/argocd-cm.yaml
"""


class _Text(str):
    """A string that is written as a block of lines."""


class _Dumper(yaml.SafeDumper):
    """Writes blocks of lines."""


_Dumper.add_representer(_Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|"))


def customizations(folder: Path = FOLDER / "resource_customizations") -> dict[str, str]:
    """Return the keys of argocd-cm, in order: for each kind its health check and its actions."""
    found: dict[str, str] = {}
    for kind in sorted(folder.glob("*/*")):
        name = f"{kind.parent.name}_{kind.name}"
        found[f"resource.customizations.health.{name}"] = (kind / "health.lua").read_text()
        found[f"resource.customizations.actions.{name}"] = _actions(kind / "actions")
    return found


def _actions(folder: Path) -> str:
    definitions = [
        {"name": script.parent.name, "action.lua": _Text(script.read_text())}
        for script in sorted(folder.glob("*/action.lua"))
    ]
    actions = {"discovery.lua": _Text((folder / "discovery.lua").read_text()), "definitions": definitions}
    return yaml.dump(actions, Dumper=_Dumper, sort_keys=False)


def config_map() -> str:
    """Return the patch of argocd-cm."""
    data = {key: _Text(text) for key, text in customizations().items()}
    return HEAD + yaml.dump({"data": data}, Dumper=_Dumper, sort_keys=False)


if __name__ == "__main__":
    CONFIG.write_text(config_map())
