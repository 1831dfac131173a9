"""Selection: which tables a policy is about, by globs and by the owner's word in a table property."""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from functools import cache
from re import Pattern as Regex
from re import compile as compiled

from compaction_operator.api.policy import Tables

OPT_OUT = "compaction.dev/policy"
OFF = "off"


def selected(tables: Iterable[tuple[str, str]], wanted: Tables) -> Iterator[str]:
    """Yield `database.table` in lower case of each table (database, name) that a policy's globs select."""
    include, exclude = _joined(wanted.include), _joined(wanted.exclude)
    for database, name in tables:
        full = f"{database}.{name}".lower()
        if include.match(full) and not exclude.match(full):
            yield full


def matching(table: str, patterns: Iterable[str]) -> str | None:
    """Return the first of some globs that matches `database.table` in lower case, None if none does."""
    return next((pattern for pattern in patterns if _joined((pattern,)).match(table)), None)


def opted_out(parameters: Mapping[str, str]) -> bool:
    """Whether a table's properties keep all policies away from it."""
    return parameters.get(OPT_OUT, "").strip().lower() == OFF


@cache
def _joined(patterns: tuple[str, ...]) -> Regex[str]:
    """Return what matches any of the globs. Without any it matches nothing."""
    return compiled("|".join(translate(pattern.lower()) for pattern in patterns) or r"(?!)")
