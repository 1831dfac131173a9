"""The fence: dead attempts publish nothing any more, and half-published pairs are completed first."""

import json
from pathlib import Path

import pytest

from compaction_operator.cleanup.fence import FenceReport, fence, retire
from compaction_operator.storage import LocalStorage, NotFoundError, StorageError
from tests.unit.cleanup.support import DELTAS, DiedError, DyingStorage, contents, make_directory, names

OWN = "_compaction_0a1b2c3d-2-11111111"
DEAD = "_compaction_0a1b2c3d-1-22222222"
DELTA, DELETE_DELTA = PAIR = ("delta_0000001_0000004", "delete_delta_0000001_0000004")
INPUTS = (*DELTAS, "delete_delta_0000004_0000004_0000")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for name in INPUTS:
        make_directory(tmp_path, name)
    return tmp_path


def _stage(table: Path, *outputs: str, folder: str = DEAD, intent: bool = True) -> Path:
    staging = table / folder
    (staging / "tasks").mkdir(parents=True)
    (staging / "tasks" / "0").write_bytes(b"unfinished")
    for output in outputs:
        make_directory(staging, output)
    if intent:
        (staging / "_intent").write_text(json.dumps({"outputs": PAIR}))
    return staging


def _fence(table: Path, keep: str | None = OWN) -> FenceReport:
    return fence(LocalStorage(), str(table), keep=keep)


def test_staging_of_others_is_removed_and_the_own_kept(table: Path) -> None:
    _stage(table, "base_0000003", intent=False)
    _stage(table, "base_0000003", folder=OWN, intent=False)
    assert _fence(table) == FenceReport(removed=(DEAD,), rolled_forward=())
    assert names(table) == {*INPUTS, OWN}


def test_without_a_name_to_keep_all_staging_is_removed(table: Path) -> None:
    _stage(table, folder=OWN)
    _stage(table)
    _fence(table, keep=None)
    assert names(table) == set(INPUTS)


def test_only_staging_folders_are_touched(table: Path) -> None:
    """Other hidden names belong to Hive or to a cleanup; a link with a staging folder's name leads somewhere else."""
    others = {".hive-staging_1", "_tmp.x", "_compaction_trash_delta_0000001_0000001", "_SUCCESS"}
    for name in others:
        (table / name).mkdir()
    (table / "_compaction_a-1-b").symlink_to(table / DELTAS[0])
    (table / "_compaction_a-1-c").write_text("a file")
    _fence(table)
    assert names(table) == {*INPUTS, *others, "_compaction_a-1-b", "_compaction_a-1-c"}


def test_a_paused_predecessor_cannot_publish_after_the_fence(table: Path) -> None:
    """H4, H19: it passed all its checks, then its node froze; now it wakes up at its rename."""
    staging = _stage(table, "base_0000003", intent=False)
    _fence(table)
    with pytest.raises(NotFoundError):
        LocalStorage().publish(str(staging / "base_0000003"), str(table / "base_0000003"))
    assert names(table) == set(INPUTS)


def test_the_rename_comes_before_the_first_deletion(table: Path) -> None:
    """Otherwise a predecessor could publish an output that is partly deleted."""
    staging = _stage(table, "base_0000003", intent=False)
    with pytest.raises(DiedError):
        fence(DyingStorage(at=1, after=True), str(table), keep=OWN)
    assert not staging.exists()
    assert (table / f"{DEAD}.fenced" / "base_0000003" / "bucket_00000").exists()


def test_a_pair_without_a_published_half_is_dropped(table: Path) -> None:
    _stage(table, *PAIR)
    assert _fence(table).rolled_forward == ()
    assert names(table) == set(INPUTS)


@pytest.mark.parametrize(("published", "waiting"), [PAIR, PAIR[::-1]])
def test_a_pair_published_by_half_is_completed(table: Path, published: str, waiting: str) -> None:
    """H3: the half alone brings deleted rows back, or hides inserted ones."""
    make_directory(table, published)
    _stage(table, waiting)
    assert _fence(table) == FenceReport(removed=(DEAD,), rolled_forward=(waiting,))
    assert names(table) == {*INPUTS, *PAIR}


RUNS = tuple(f"{kind}_{ids}" for ids in ("0000001_0000002", "0000003_0000004") for kind in ("delta", "delete_delta"))


@pytest.mark.parametrize("published", [1, 2, 3])
def test_pairs_of_several_runs_are_completed_together(table: Path, published: int) -> None:
    """H3: an attempt that merges runs of one row type publishes them all under one EXCLUSIVE lock."""
    for name in RUNS[:published]:
        make_directory(table, name)
    staging = _stage(table, *RUNS[published:], intent=False)
    (staging / "_intent").write_text(json.dumps({"outputs": RUNS}))
    assert _fence(table) == FenceReport(removed=(DEAD,), rolled_forward=RUNS[published:])
    assert names(table) == {*INPUTS, *RUNS}


def test_a_pair_that_is_published_is_left_as_it_is(table: Path) -> None:
    for name in PAIR:
        make_directory(table, name)
    _stage(table)
    assert _fence(table).rolled_forward == ()
    assert names(table) == {*INPUTS, *PAIR}


@pytest.mark.parametrize("published", [(), (DELTA,), PAIR])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 7))
def test_a_fence_that_dies_anywhere_is_finished_by_the_next(
    table: Path, published: tuple[str, ...], at: int, after: bool
) -> None:
    """H14: whatever the first one got to, the final state is the same; a third run changes nothing."""
    for name in published:
        make_directory(table, name)
    _stage(table, *(name for name in PAIR if name not in published))
    expected = {*INPUTS, *(PAIR if published else ())}
    try:
        fence(DyingStorage(at=at, after=after), str(table), keep=OWN)
    except DiedError:
        _fence(table)
    assert names(table) == expected
    before = contents(table)
    assert _fence(table) == FenceReport((), ())
    assert contents(table) == before


def test_a_folder_deleted_by_half_never_looks_like_a_pair_published_by_half(table: Path) -> None:
    """The attempt after it published the same names; the half that is left of the dead one must stay out."""
    _stage(table, *PAIR)
    with pytest.raises(DiedError):
        fence(DyingStorage(at=3, after=True), str(table), keep=OWN)
    make_directory(table, DELTA)
    assert _fence(table).rolled_forward == ()
    assert not (table / DELETE_DELTA).exists()


def test_a_folder_that_came_back_after_its_fence_is_fenced_again(table: Path) -> None:
    """A driver that did not notice made its folder once more while the fenced one was still there."""
    _stage(table, DELETE_DELTA, folder=f"{DEAD}.fenced")
    make_directory(table, DELTA)
    _stage(table, "base_0000003", intent=False)
    assert set(_fence(table).rolled_forward) == {DELETE_DELTA}
    assert names(table) == {*INPUTS, *PAIR}


def test_another_directory_in_the_place_of_the_other_half_is_an_error(table: Path) -> None:
    """Its owner is unknown: the fence keeps both and names them."""
    for name in PAIR:
        make_directory(table, name)
    _stage(table, DELETE_DELTA)
    for _ in range(2):
        with pytest.raises(StorageError, match=DELETE_DELTA):
            _fence(table)
    assert (table / f"{DEAD}.fenced" / DELETE_DELTA / "bucket_00000").exists()


def test_the_last_copy_of_a_half_is_kept_when_the_other_is_nowhere(table: Path) -> None:
    _stage(table, DELETE_DELTA)
    with pytest.raises(StorageError, match=f"{DELTA} is neither here nor published"):
        _fence(table)
    assert (table / f"{DEAD}.fenced" / DELETE_DELTA / "bucket_00000").exists()


@pytest.mark.parametrize(
    "record",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"outputs": "delta_0000001_0000004"}',
        '{"outputs": ["../x"]}',
        '{"outputs": ["tasks", "base_0000001"]}',
        '{"outputs": [1]}',
    ],
)
def test_an_intent_that_names_anything_else_is_an_error(table: Path, record: str) -> None:
    """H21: what is in a file of the table never becomes a path."""
    staging = _stage(table, DELETE_DELTA, intent=False)
    (staging / "_intent").write_text(record)
    with pytest.raises(StorageError, match=r"/_intent (names|cannot be read)"):
        _fence(table)
    assert (table / f"{DEAD}.fenced" / DELETE_DELTA).exists()


def test_a_place_that_does_not_exist_has_nothing_to_fence(tmp_path: Path) -> None:
    assert _fence(tmp_path / "dropped") == FenceReport((), ())


class _FasterFence(LocalStorage):
    """Another fence does all its work right before this one's n-th rename."""

    def __init__(self, table: Path, at: int) -> None:
        super().__init__()
        self._table = table
        self._left = at

    def rename(self, source: str, target: str) -> None:
        self._left -= 1
        if self._left == 0:
            fence(LocalStorage(), str(self._table), keep=OWN)
        super().rename(source, target)


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("published", [(), (DELTA,)])
def test_two_fences_at_once_end_in_the_same_state(table: Path, at: int, published: tuple[str, ...]) -> None:
    """The controller fences the attempt that ended while the next driver fences its predecessor."""
    for name in published:
        make_directory(table, name)
    _stage(table, *(name for name in PAIR if name not in published))
    fence(_FasterFence(table, at), str(table), keep=OWN)
    assert names(table) == {*INPUTS, *(PAIR if published else ())}


def test_a_driver_that_gives_up_removes_only_its_own_staging(table: Path) -> None:
    """H4: a driver that finds that it was superseded must not fence its successor."""
    _stage(table, "base_0000003", folder=OWN, intent=False)
    _stage(table, "base_0000003", intent=False)
    retire(LocalStorage(), str(table), DEAD)
    assert names(table) == {*INPUTS, OWN}


@pytest.mark.parametrize("fenced", [False, True])
def test_who_gives_up_between_the_halves_of_its_pair_completes_it(table: Path, fenced: bool) -> None:
    staging = _stage(table, *PAIR)
    (staging / DELTA).rename(table / DELTA)
    if fenced:
        staging.rename(table / f"{DEAD}.fenced")
    retire(LocalStorage(), str(table), DEAD)
    retire(LocalStorage(), str(table), DEAD)
    assert names(table) == {*INPUTS, *PAIR}
