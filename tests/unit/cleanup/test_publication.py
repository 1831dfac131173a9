"""Published or not is computed from what lies there (H10)."""

from pathlib import Path

import pytest

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.cleanup.publication import UndecidedError, published_state
from tests.unit.cleanup.support import DELTAS, MINOR, entry

PAIR = ("delta_0000001_0000004", "delete_delta_0000001_0000004")


def test_all_outputs_there_is_published() -> None:
    assert published_state(entry(Path("/t")), {*DELTAS, MINOR}) is PublishedState.PUBLISHED


def test_no_output_there_is_not_published() -> None:
    """H10: the driver died before its rename; similar names do not count."""
    assert published_state(entry(Path("/t")), {*DELTAS, f"{MINOR}_0000"}) is PublishedState.NOT_PUBLISHED


def test_an_entry_without_outputs_has_nothing_to_publish() -> None:
    assert published_state(entry(Path("/t"), outputs=()), set()) is PublishedState.NOTHING_TO_PUBLISH


@pytest.mark.parametrize("there", PAIR)
def test_half_a_pair_is_an_error_that_names_both_halves(there: str) -> None:
    """Uncertain: neither may its inputs be deleted, nor may it count as not published."""
    with pytest.raises(UndecidedError, match=r"delta_0000001_0000004.* is published, .*delta_0000001_0000004"):
        published_state(entry(Path("/t"), outputs=PAIR), {there})
