"""Whether a partition's outputs are there, computed from a listing: nobody reports it (hazard H10)."""

from collections.abc import Collection, Iterable, Mapping

from compaction_operator.api.cleanup import PartitionEntry, PublishedState


class PartlyPublishedError(Exception):
    """Some outputs of a pair are there and others are not: the fence must run before anything is decided."""


def published_state(entry: PartitionEntry, names: Collection[str]) -> PublishedState:
    """Return an entry's state, from the names in its partition's directory after the fence.

    Raises PartlyPublishedError, naming both halves, when only some of its outputs are there.
    """
    if not entry.outputs:
        return PublishedState.NOTHING_TO_PUBLISH
    missing = [output for output in entry.outputs if output not in names]
    if not missing:
        return PublishedState.PUBLISHED
    if len(missing) == len(entry.outputs):
        return PublishedState.NOT_PUBLISHED
    there = [output for output in entry.outputs if output in names]
    raise PartlyPublishedError(f"{entry.location}: {', '.join(there)} is published, {', '.join(missing)} is not")


def published_states(
    entries: Iterable[PartitionEntry], names: Mapping[str, Collection[str]]
) -> dict[str, PublishedState]:
    """Return the state of each entry by its partition's name; `names` has the listed names by partition.

    Raises PartlyPublishedError as `published_state` does.
    """
    return {entry.partition: published_state(entry, names[entry.partition]) for entry in entries}
