"""A report of licences names each component once, and does not hide one that states none."""

from typing import Any

from sandbox.supply.licences import table


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
