"""A report of licences names each component once, and does not hide one that states none."""

from typing import Any

import pytest
from sandbox.supply.licences import ACCEPTED, NONE, refused, table


def test_components_are_listed_by_their_licences() -> None:
    components: list[dict[str, Any]] = [
        {"type": "library", "name": "kopf", "version": "1", "licenses": [{"license": {"id": "MIT"}}]},
        {"type": "library", "name": "attrs", "version": "2", "licenses": [{"license": {"id": "MIT"}}]},
        {"type": "library", "name": "bash", "version": "5", "licenses": [{"expression": "GPL-3.0-only"}]},
        {"type": "library", "name": "both", "licenses": [{"license": {"name": "B"}}, {"license": {"id": "A"}}]},
        {"type": "library", "name": "unknown", "version": "3"},
        {"type": "library", "name": "empty", "version": "3", "licenses": [{"license": {"name": ""}}]},
        {"type": "file", "name": "/etc/passwd"},
        {"type": "operating-system", "name": "debian", "version": "12"},
    ]
    assert table(components).splitlines()[2:] == [
        "| MIT | 2 | attrs 2, kopf 1 |",
        "| not stated | 2 | empty 3, unknown 3 |",
        "| A, B | 1 | both |",
        "| GPL-3.0-only | 1 | bash 5 |",
    ]


@pytest.mark.parametrize(
    ("name", "stated", "passes"),
    [
        ("kopf", "MIT", True),
        ("numpy", "BSD-3-Clause AND (0BSD OR MIT)", True),
        ("py4j", "License :: OSI Approved :: BSD License", True),
        ("new", "GPL-3.0-only", False),
        ("new", "MIT AND AGPL-3.0-or-later", False),
        ("new", "MIT OR LGPL-2.1-only", False),
        ("new", "MPL-2.0", False),
        ("new", NONE, False),
        ("thrift", NONE, True),
        ("thrift", "GPL-2.0-only", False),
    ],
)
def test_a_licence_is_permissive_or_accepted_for_this_component(name: str, stated: str, *, passes: bool) -> None:
    """An acceptance holds for what the component states now, and for no later change."""
    licences = [] if stated == NONE else [{"expression": stated}]
    found = [*refused([{"type": "library", "name": name, "version": "1", "licenses": licences}])]
    assert found == ([] if passes else [f"{name}: {stated}"])


def test_each_acceptance_has_a_reason() -> None:
    assert all(reason for _, reason in ACCEPTED.values())
