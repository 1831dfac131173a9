"""A storage that does not answer is not asked hundreds of times; the trouble of one path keeps no other from it."""

from collections.abc import Callable

import pytest

from compaction_operator.acid.listing import Listing
from compaction_operator.storage import StorageError
from compaction_operator.storage.silence import _AT_ONCE, ENOUGH, Silence, list_side_by_side

PATHS = [f"hdfs://nn1/p{number}" for number in range(200)]
NOTHING = Listing(directories=(), files=())


def _listing(asked: list[str], error: Callable[[str], StorageError | None]) -> Callable[[str], Listing]:
    def list_partition(path: str) -> Listing:
        asked.append(path)
        if found := error(path):
            raise found
        return NOTHING

    return list_partition


def test_after_a_round_without_answers_the_rest_is_not_asked_for() -> None:
    asked: list[str] = []
    found = list_side_by_side(_listing(asked, lambda path: StorageError(f"{path}: no answer", passing=True)), PATHS)
    assert len(asked) < _AT_ONCE + ENOUGH
    assert list(found) == PATHS
    for path, error in found.items():
        assert isinstance(error, StorageError) and error.passing and path in str(error) and "no answer" in str(error)


@pytest.mark.parametrize(("failing", "passing"), [(PATHS[:1], True), (PATHS, False)])
def test_what_is_the_trouble_of_paths_alone_keeps_no_other_from_being_listed(failing: list[str], passing: bool) -> None:
    asked: list[str] = []
    error = StorageError("a lost block, or no permission", passing=passing)
    found = list_side_by_side(_listing(asked, lambda path: error if path in failing else None), PATHS)
    assert sorted(asked) == sorted(PATHS)
    assert [path for path, listing in found.items() if listing != NOTHING] == failing


def test_an_answer_ends_the_silence() -> None:
    silence = Silence()
    for path in PATHS[:20]:
        with pytest.raises(StorageError, match="busy"), silence.asked(path):
            raise StorageError("busy", passing=True)
        with silence.asked(path):
            pass
