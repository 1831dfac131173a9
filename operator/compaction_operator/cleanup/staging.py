"""The names of what a compaction writes beside a table's directories; Hive ignores them for their first character."""

import re
from dataclasses import dataclass

INTENT = "_intent"
"""In a staging folder: a JSON object whose `outputs` are directories that must be published together."""

TRASH_PREFIX = "_compaction_trash_"
"""Before the name of an obsolete directory that is about to be deleted."""

_GRAMMAR = re.compile(r"_compaction_([A-Za-z0-9][A-Za-z0-9-]{0,62})-([0-9]+)-([A-Za-z0-9]{1,8})(\.fenced)?")


@dataclass(frozen=True, slots=True)
class StagingFolder:
    """A staging folder's name, taken apart: the compaction's UID, and the pod's by its first 8 characters.

    NB: the compaction's is whole, as it says whose folder that is: nobody may end another's attempt by a similar one.
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

    Raises ValueError when a UID is none: letters, digits and dashes, at most 63 of them.
    """
    name = f"_compaction_{uid}-{attempt}-{pod_uid[:8]}"
    parsed = parse_staging(name)
    if parsed is None or parsed.uid != uid:
        raise ValueError(f"{uid!r} and {pod_uid!r} do not make a staging name")
    return name


def parse_staging(name: str) -> StagingFolder | None:
    """Return what a staging folder's name says, None for any other name."""
    match = _GRAMMAR.fullmatch(name)
    if not match:
        return None
    return StagingFolder(name, match[1], int(match[2]), match[3], fenced=match[4] is not None)
