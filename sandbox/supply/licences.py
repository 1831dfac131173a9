"""Say under which licences the components of a CycloneDX document are: a table in Markdown on standard output.

`licences.py DOCUMENT`. A component that states several licences is in one line with all of them. What states none is
named in a line of its own, for a person to look at.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NONE = "not stated"


def licences_of(component: Mapping[str, Any]) -> str:
    """Return the licences that a component states, as one text."""
    stated = [
        found.get("expression") or found["license"].get("id") or found["license"].get("name")
        for found in component.get("licenses", ())
    ]
    return ", ".join(sorted({one for one in stated if one})) or NONE


def table(components: Iterable[Mapping[str, Any]]) -> str:
    """Return the table: one row for each set of licences, the most frequent first."""
    found = defaultdict[str, set[str]](set)
    for component in components:
        if component["type"] != "file" and component["type"] != "operating-system":
            found[licences_of(component)].add(f"{component['name']} {component.get('version', '')}".strip())
    rows = sorted(found.items(), key=lambda row: (-len(row[1]), row[0]))
    lines = ["| Licences | Components | Names |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {len(those)} | {', '.join(sorted(those))} |" for name, those in rows)])


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text())["components"]))
