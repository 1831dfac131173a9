"""Say under which licences the components of a CycloneDX document are: a table in Markdown on standard output.

`licences.py DOCUMENT`. A component that states several licences is in one line with all of them. What states none is
named in a line of its own, for a person to look at. `licences.py DOCUMENT permissive` fails if one is under a licence
that is neither permissive nor accepted here with a reason.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

NONE = "not stated"
PERMISSIVE = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "PSF-2.0", "Python-2.0", "Zlib"),
    "License :: OSI Approved :: Apache Software License",
    "License :: OSI Approved :: BSD License",
}
ACCEPTED = {
    "certifi": (
        "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0), MPL-2.0",
        "it covers each file by itself, and none is changed",
    ),
    "hdfs-native": (NONE, "Apache-2.0 by the list of contents in its wheel, whose metadata says nothing"),
    "protobuf": (NONE, "3-clause BSD by the LICENSE in its wheel, whose metadata names it in free text only"),
    "thrift": (NONE, "Apache-2.0 by the free text of its metadata"),
}
"""By the component: the licences that it states, and why they are accepted. Another licence is not."""


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


def refused(components: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield `name: licences` of each component for which neither PERMISSIVE nor ACCEPTED has all that it states."""
    for component in components:
        stated = licences_of(component)
        if stated == ACCEPTED.get(component["name"], ("",))[0]:
            continue
        # NB: of a choice (OR) each licence must be known, too: a person looks at it otherwise.
        terms = {term.strip() for term in re.split(r"[,()]|\bAND\b|\bOR\b", stated)}
        if not terms - {""} <= PERMISSIVE:
            yield f"{component['name']}: {stated}"


def main(document: str, rule: str = "") -> None:
    """Print the table; exit with 1 after it if the rule is `permissive` and a component breaks it."""
    components = json.loads(Path(document).read_text())["components"]
    print(table(components))
    broken = [*refused(components)] if rule == "permissive" else []
    if broken:
        sys.exit(f"neither permissive nor accepted with a reason in licences.py: {'; '.join(broken)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
