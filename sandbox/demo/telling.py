"""What the story says and expects where stores and versions of Hive differ."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sandbox.harness import expected
from sandbox.harness.settings import Settings
from sandbox.metastore.server import Hive


@dataclass(frozen=True)
class Telling:
    """The words and directory names of one version of Hive on one kind of store."""

    hive: Hive
    try_it: Mapping[str, frozenset[str]]
    """try_it as its six transactions leave it."""
    guard: frozenset[str]
    """What lies in a table besides, as soon as it has a base while an older snapshot is in use."""
    plain: Callable[[Iterable[str]], frozenset[str]]
    """What names are without what cannot be known before."""
    again_under_the_reader: bool
    """Whether a table can be compacted again before the cleanup of the last compaction is over."""
    again: str
    publishing: str
    deleting: str
    pair: str
    """How the two directories of a minor compaction with deletes appear."""


_ON_HIVE_3 = Telling(
    hive="3.1.3",
    try_it=expected.TRY_IT,
    guard=expected.GUARD,
    plain=frozenset,
    again_under_the_reader=True,
    again="One new base replaces the minor compaction's delta and the deltas that it was made of.",
    publishing="""publish by renaming. Readers are not disturbed: if a first base would be too new for a snapshot in
    use, the driver first publishes the empty guard base, which every snapshot may use.""",
    deleting="""The controller hides the old directories under a lock that briefly holds off new readers, and deletes
    them.""",
    pair="""On Hive 3.1 the driver publishes them under an EXCLUSIVE lock, so it needs a moment without readers.""",
)
_ON_S3 = Telling(
    hive="4.0.1",
    try_it=expected.TRY_IT_OF_HIVE_4,
    guard=frozenset(),
    plain=expected.plain,
    again_under_the_reader=False,
    again="""One new base replaces the minor compaction's delta. On Hive 4 this waits until that compaction's cleanup is
    over: until then, its entry in the metastore's queue (SHOW COMPACTIONS) keeps others from the partition.""",
    publishing="""publish. S3 has no rename: the store copies each file into an upload to its final place, the
    CompactionCleanup names the uploads too, and the driver completes them and commits. Readers are not disturbed: they
    ignore a directory whose name ends in _v and a transaction until that transaction has committed. A driver that was
    given up can complete nothing later, because its uploads are aborted.""",
    deleting="""On S3 nothing can be hidden by a rename. The controller lists the table again and deletes the old
    directories in place, object by object, under a lock that holds off new readers for some seconds at a time.""",
    pair="""On Hive 4 both appear when the driver's transaction commits, so it needs no lock that readers wait for.""",
)


def telling(settings: Settings) -> Telling:
    """Return the telling for where a cluster of these settings has its tables."""
    return _ON_S3 if settings.storage == "s3" else _ON_HIVE_3
