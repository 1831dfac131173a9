"""Progress in few words, for `kubectl get` and the log."""

import pytest

from compaction_operator.api.compaction import ProgressStatus
from compaction_operator.api.progress import Progress


@pytest.mark.parametrize(
    ("partitions", "of", "merged", "of_bytes", "text"),
    [
        (0, 12, 0, 1000, "0/12 partitions, 0%"),
        (3, 12, 459, 1000, "3/12 partitions, 45%"),
        (0, 1, 1000, 1000, "0/1 partitions, 99%"),
        (0, 1, 2000, 1000, "0/1 partitions, 99%"),
        (12, 12, 990, 1000, "12/12 partitions, 100%"),
        (3, 12, 0, 0, "3/12 partitions, 25%"),
        (0, 0, 0, 0, "0/0 partitions"),
    ],
)
def test_in_few_words(partitions: int, of: int, merged: int, of_bytes: int, text: str) -> None:
    """The bytes tell, where there are any, and 100% is said only when every partition is done."""
    progress = Progress(partitions_done=partitions, partitions_total=of, bytes_done=merged, bytes_total=of_bytes)
    assert str(progress) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1 min"), (60, "1 min"), (61, "2 min"), (3600, "1 h 0 min"), (7750, "2 h 10 min")]
)
def test_what_is_left_in_few_words(seconds: int, text: str) -> None:
    progress = Progress(partitions_done=3, partitions_total=12, bytes_done=459, bytes_total=1000, seconds_left=seconds)
    assert str(progress) == f"3/12 partitions, 45%, about {text} left"
    assert str(progress.stopped()) == "3/12 partitions, 45%"
    assert str(progress.completed()) == "12/12 partitions, 100%"


def test_a_status_shows_the_numbers_of_a_moment() -> None:
    """Its moment and its words do not make it news."""
    progress = Progress(partitions_done=3, partitions_total=12, bytes_done=459, bytes_total=1000)
    shown = ProgressStatus.of(progress, at="2026-01-01T12:00:00Z")
    assert shown.shows(progress)
    assert not shown.shows(progress.completed())
    assert ProgressStatus.of(shown.completed(), at="2026-01-01T12:00:10Z").summary == "12/12 partitions, 100%"
