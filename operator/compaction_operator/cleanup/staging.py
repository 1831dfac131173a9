"""Names that a compaction creates beside a table's directories; Hive ignores them because of their first character."""

import re
from dataclasses import dataclass

INTENT = "_intent"
"""A file in a staging folder: a JSON object whose `outputs` are directories that must be published together."""

TRASH_PREFIX = "_compaction_trash_"
"""Prefix of an obsolete directory that is about to be deleted."""

_GRAMMAR = re.compile(r"_compaction_([A-Za-z0-9][A-Za-z0-9-]{0,62})-([0-9]+)-([A-Za-z0-9]{1,8})(\.fenced)?")


@dataclass(frozen=True, slots=True)
class StagingFolder:
    """A parsed staging folder name: the compaction's UID, and the first 8 characters of the pod's UID.

    NB: the compaction's UID is complete, because it identifies the owner: a similar name must not end another's
    attempt.
    """

    name: str
    uid: str
    attempt: int
    pod_uid: str
    fenced: bool

    @property
    def fenced_name(self) -> str:
        """The name under which its attempt can no longer publish from it."""
        return self.name if self.fenced else f"{self.name}.fenced"


def staging_name(*, uid: str, attempt: int, pod_uid: str) -> str:
    """Return the name of the staging folder of one driver pod of one attempt.

    Raises ValueError if a UID is invalid: it must consist of letters, digits and dashes, at most 63 of them.
    """
    name = f"_compaction_{uid}-{attempt}-{pod_uid[:8]}"
    parsed = parse_staging(name)
    if parsed is None or parsed.uid != uid:
        raise ValueError(f"{uid!r} and {pod_uid!r} do not form a staging name")
    return name


def parse_staging(name: str) -> StagingFolder | None:
    """Parse a staging folder's name; return None for any other name."""
    match = _GRAMMAR.fullmatch(name)
    if not match:
        return None
    return StagingFolder(name, match[1], int(match[2]), match[3], fenced=match[4] is not None)
