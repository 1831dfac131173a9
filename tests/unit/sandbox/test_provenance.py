"""The provenance of each image names its commit and its pinned inputs, and the page explains its terms."""

import hashlib
import json
from pathlib import Path

import pytest
from sandbox.supply.provenance import BUILD_TYPE, BUILDER, INPUTS, main

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("builder", "expected"), [("", BUILDER), ("https://ci.example/run", "https://ci.example/run")])
@pytest.mark.parametrize("name", list(INPUTS))
def test_an_image_names_its_commit_and_inputs(
    name: str, builder: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("BUILDER", builder)
    main(name, "https://git.example/operator", "c0ffee", "0.1.0")
    found = json.loads(capsys.readouterr().out)
    definition = found["buildDefinition"]
    assert definition["externalParameters"] == {"image": name, "version": "0.1.0"}
    commit, *inputs = definition["resolvedDependencies"]
    assert commit == {"uri": "git+https://git.example/operator", "digest": {"gitCommit": "c0ffee"}}
    assert {one["name"]: one["digest"]["sha256"] for one in inputs} == {
        path: hashlib.sha256((ROOT / path).read_bytes()).hexdigest() for path in INPUTS[name]
    }
    assert found["runDetails"]["builder"]["id"] == expected


def test_the_page_explains_the_terms() -> None:
    page = (ROOT / "docs" / "supply-chain.md").read_text()
    for term in BUILD_TYPE, BUILDER, *INPUTS["compaction-operator"]:
        assert f"`{term}`" in page
