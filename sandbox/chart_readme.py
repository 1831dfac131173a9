"""Writes the chart's README from the comments of its values.yaml: `python -m sandbox.chart_readme`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

CHART = Path(__file__).parents[1] / "charts" / "compaction-operator"
README = CHART / "README.md"
EXAMPLE, EXAMPLE_ENDS = "# warehouses:", "warehouses: []"
FREE = (
    "resources.",
    *(f"warehouses[].{name}." for name in ("hudi.options", "queue.template", "stores.s3.buckets")),
    *(f"profiles[].{name}" for name in ("driver.", "executor.", "env[]", "volumes[]", "volumeMounts[]")),
)
"""What lies below these has fields of another's, such as Kubernetes' or a TableCompaction's. The comment says so."""
_ENTRY = re.compile(r"^(?P<indent> *)(?P<mark>- |# )?(?P<name>[A-Za-z][\w.-]*):(?: (?P<value>.*))?$")

HEAD = """# compaction-operator

This chart installs the operator: see [Installing on your own cluster](../../docs/install.md). This page lists all of
its values. `make chart-readme` writes it from `values.yaml`. A value that is not listed here is refused.

"""


@dataclass(frozen=True)
class Value:
    """A value: its path (`warehouses[].name`), how `values.yaml` gives it, and the comment above it."""

    path: str
    given: str
    comment: str


def values(text: str) -> Iterator[Value]:
    """Yield all values of a values.yaml, those of its example too, in their order. Comments may hold values."""
    stack: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in _without_marks(text):
        entry = _ENTRY.match(line)
        if entry is None:
            comment = [*comment, line.strip().lstrip("# ")] if line.strip() else []
            continue
        _descend(stack, entry)
        given = f"`{entry['value']}`" if entry["value"] else ""
        none = "none; for example " if entry["mark"] == "# " else ""
        yield Value(".".join(name for _, name in stack), f"{none}{given}", " ".join(comment))
        comment = []


def _without_marks(text: str) -> Iterator[str]:
    """Yield the lines, those of the example as if they were no comment."""
    example = False
    for line in text.splitlines():
        example = line == EXAMPLE or (example and line != EXAMPLE_ENDS)
        yield line.removeprefix("#").removeprefix(" ") if example else line


def _descend(stack: list[tuple[int, str]], entry: re.Match[str]) -> None:
    """Put an entry's name below those that it lies in. An item of a list marks the list."""
    item = entry["mark"] == "- "
    indent = len(entry["indent"]) + (2 if item else 0)
    while stack and stack[-1][0] >= indent:
        stack.pop()
    if item:
        above, name = stack.pop()
        stack.append((above, f"{name}[]"))
    stack.append((indent, entry["name"]))


def readme(text: str) -> str:
    """Return the README for a values.yaml."""
    every = [one for one in values(text) if not one.path.startswith(FREE)]
    of_warehouse = [one for one in every if one.path.startswith("warehouses[]")]
    # NB: the example's own line, which has the comment.
    others = {one.path: one for one in reversed(every) if one not in of_warehouse}
    return (
        f"{HEAD}## Values\n{_table('Default', list(others.values())[::-1])}\n"
        f"## The fields of a warehouse\n{_table('Example', of_warehouse)}"
    )


def _table(given: str, rows: Sequence[Value]) -> str:
    lines = [f"| Value | {given} | Meaning |", "|---|---|---|", *(_row(one) for one in rows)]
    return "\n".join(lines) + "\n"


def _row(value: Value) -> str:
    return f"| `{value.path}` | {value.given} | {value.comment.removesuffix(' For example: ')} |"


if __name__ == "__main__":
    README.write_text(readme((CHART / "values.yaml").read_text()))
