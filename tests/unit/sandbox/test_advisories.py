"""Which versions an advisory affects, and that a folder without any is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from sandbox.supply.advisories import affects, read


def advisory(*events: dict[str, str], versions: tuple[str, ...] = (), ecosystem: str = "PyPI") -> dict[str, Any]:
    package = {"name": "Some_Package", "ecosystem": ecosystem}
    spans = [{"type": "ECOSYSTEM", "events": [*events]}] if events else []
    return {"id": "PYSEC-1", "affected": [{"package": package, "versions": [*versions], "ranges": spans}]}


@pytest.mark.parametrize(
    ("events", "version", "affected"),
    [
        ([{"introduced": "0"}], "9.1", True),
        ([{"introduced": "1.2"}, {"fixed": "1.10"}], "1.1", False),
        ([{"introduced": "1.2"}, {"fixed": "1.10"}], "1.2", True),
        ([{"introduced": "1.2"}, {"fixed": "1.10"}], "1.9", True),
        ([{"introduced": "1.2"}, {"fixed": "1.10"}], "1.10", False),
        ([{"introduced": "0"}, {"last_affected": "2.0"}], "2.0", True),
        ([{"introduced": "0"}, {"last_affected": "2.0"}], "2.0.1", False),
        ([{"introduced": "0"}, {"fixed": "1.5"}, {"introduced": "2.0"}, {"fixed": "2.3"}], "2.1", True),
        ([{"introduced": "0"}, {"fixed": "1.5"}, {"introduced": "2.0"}, {"fixed": "2.3"}], "1.7", False),
        ([{"fixed": "2.3"}, {"introduced": "2.0"}], "2.1", True),
        ([{"introduced": "0"}, {"fixed": "2.0"}], "2.0rc1", True),
    ],
)
def test_a_range_has_what_came_before_its_fix(events: list[dict[str, str]], version: str, *, affected: bool) -> None:
    assert affects(advisory(*events), "some-package", version) == affected


def test_a_listed_version_is_affected_and_another_is_not() -> None:
    assert affects(advisory(versions=("1.0",)), "some.package", "1.0")
    assert not affects(advisory(versions=("1.0",)), "some.package", "1.0.1")


def test_a_package_of_the_same_name_elsewhere_is_another() -> None:
    assert not affects(advisory({"introduced": "0"}, ecosystem="npm"), "some-package", "1.0")
    assert not affects(advisory({"introduced": "0"}), "other-package", "1.0")


def test_advisories_are_found_by_the_names_of_packages(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.json").write_text(json.dumps(advisory({"introduced": "0"})))
    (tmp_path / "deep" / "two.yaml").write_text("id: PYSEC-2\naffected: [{package: {name: x, ecosystem: PyPI}}]")
    (tmp_path / "settings.yaml").write_text("a: 1")
    assert {name: [one["id"] for one in those] for name, those in read(tmp_path).items()} == {
        "some-package": ["PYSEC-1"],
        "x": ["PYSEC-2"],
    }


def test_a_folder_without_advisories_is_refused(tmp_path: Path) -> None:
    """It would say of every package that nothing is known."""
    (tmp_path / "settings.yaml").write_text("a: 1")
    with pytest.raises(ValueError, match="no advisory in OSV's format"):
        read(tmp_path)
