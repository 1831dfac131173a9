"""What Argo CD makes of the operator's resources: its Lua runs here, on the cases in Argo CD's own form beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from lupa import LuaRuntime, lua_type
from sandbox import argocd

from compaction_operator.api.cleanup import CompactionCleanupSpec
from compaction_operator.api.compaction import TableCompactionSpec
from compaction_operator.api.model import Model
from compaction_operator.api.policy import CompactionPolicySpec

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "compaction-operator"
KINDS = sorted(argocd.FOLDER.glob("resource_customizations/*/*"))
SPECS: dict[str, type[Model]] = {
    "TableCompaction": TableCompactionSpec,
    "CompactionCleanup": CompactionCleanupSpec,
    "CompactionPolicy": CompactionPolicySpec,
}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def run(script: Path, resource: Any) -> Any:
    """Run a script with a resource as its global `obj`, and return what it returns, as JSON has it."""
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(resource, recursive=True)
    return plain(lua.execute(script.read_text()))


def plain(value: Any) -> Any:
    """Return a table of Lua as a list if its keys are 1, 2, …, else as a dict."""
    if lua_type(value) != "table":
        return value
    items = {key: plain(item) for key, item in value.items()}
    return list(items.values()) if items and list(items) == list(range(1, len(items) + 1)) else items


def cases(file: str, section: str) -> list[Any]:
    """Return the cases of all kinds: the folder of the file, and the case."""
    return [
        pytest.param((kind / file).parent, case, id=f"{kind.name}-{Path(case['inputPath']).stem}")
        for kind in KINDS
        for case in load(kind / file)[section]
    ]


def test_each_kind_has_its_own() -> None:
    assert {kind.name for kind in KINDS} == set(SPECS)


@pytest.mark.parametrize("path", sorted(argocd.FOLDER.rglob("testdata/*.yaml")), ids=lambda path: path.stem)
def test_the_cases_are_resources(path: Path) -> None:
    """In fields that exist."""
    resource = load(path)
    spec = SPECS[resource["kind"]].model_validate(resource["spec"])
    assert set(resource["spec"]) <= set(spec.to_json())


@pytest.mark.parametrize(("folder", "case"), cases("health_test.yaml", "tests"))
def test_health(folder: Path, case: Mapping[str, Any]) -> None:
    assert run(folder / "health.lua", load(folder / case["inputPath"])) == case["healthStatus"]


@pytest.mark.parametrize(("folder", "case"), cases("actions/action_test.yaml", "discoveryTests"))
def test_actions_are_offered(folder: Path, case: Mapping[str, Any]) -> None:
    """Those that have a script, and only while they change something."""
    offered = run(folder / "discovery.lua", load(folder / case["inputPath"]))
    assert offered == {one["name"]: {"disabled": one["disabled"]} for one in case["result"]}
    assert set(offered) == {script.parent.name for script in folder.glob("*/action.lua")}


@pytest.mark.parametrize(("folder", "case"), cases("actions/action_test.yaml", "actionTests"))
def test_actions_change_one_field(folder: Path, case: Mapping[str, Any]) -> None:
    changed = run(folder / case["action"] / "action.lua", load(folder / case["inputPath"]))
    assert changed == load(folder / case["expectedOutputPath"])


def test_the_patch_of_argo_cds_configuration_is_the_lua() -> None:
    assert argocd.CONFIG.read_text() == argocd.config_map(), "run make argocd"
    assert load(argocd.CONFIG)["data"] == argocd.customizations()


SAMPLE = argocd.FOLDER.parent / "samples" / "argocd"
HOOK, WAVE = "argocd.argoproj.io/hook", "argocd.argoproj.io/sync-wave"
TABLES = [load(path) for path in sorted((SAMPLE / "tables").iterdir())]


@pytest.mark.parametrize("resource", TABLES, ids=lambda resource: resource["kind"])
def test_the_samples_are_resources_that_the_sample_warehouse_allows(resource: Any) -> None:
    """In fields that exist. Argo CD takes generateName only in a hook."""
    spec = SPECS[resource["kind"]].model_validate(resource["spec"])
    assert set(resource["spec"]) <= set(spec.to_json())
    assert (resource["spec"]["warehouse"], resource["metadata"]["namespace"]) == ("main", "analytics")
    metadata = resource["metadata"]
    assert ("generateName" in metadata) == (HOOK in metadata["annotations"]) == ("name" not in metadata)


def test_policies_come_before_compactions_and_after_the_operator() -> None:
    """The chart has no wave, that is, 0."""
    waves = {one["kind"]: int(one["metadata"]["annotations"][WAVE]) for one in TABLES if "name" in one["metadata"]}
    assert waves == {"CompactionPolicy": 1, "TableCompaction": 2}
    assert not [path for path in CHART.rglob("*.yaml") if WAVE in path.read_text()]
    assert [one["metadata"]["annotations"].get(HOOK) for one in TABLES] == [None, None, "PostSync"]


def test_the_sample_application_names_what_there_is() -> None:
    spec = load(SAMPLE / "application.yaml")["spec"]
    chart, tables = spec["sources"]
    assert [(ROOT / source["path"]).resolve() for source in (chart, tables)] == [CHART, SAMPLE / "tables"]
    (values,) = chart["helm"]["valueFiles"]
    assert load(CHART / values)["warehouses"]
    assert chart["helm"]["releaseName"] == "compaction-operator"
