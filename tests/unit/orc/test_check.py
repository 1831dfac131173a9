"""A task can be ended early: it is asked before each step, and what it wrote by then is gone."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.orc import (
    InputFile,
    MergeResult,
    MergeTask,
    merge_bucket,
    stitch_parts,
    verify_output,
    verify_stitched,
)
from compaction_operator.orc.file import OrcWriter
from compaction_operator.orc.merge import deletes, engine, verify
from compaction_operator.orc.merge.source import OpenStripe, Stripe
from tests.unit.orc.build import FIXTURES, delete, delete_task, insert, insert_task, write_acid

Step = Callable[[], None]


class End(Exception):  # noqa: N818 - no error
    """What a check raises."""


def large(tmp_path: Path) -> MergeTask:
    """Two files of several stripes whose keys interleave, and delete events in several blocks."""
    inputs = [
        write_acid(tmp_path / f"{odd}", [insert(1, n, f"{n * 7919}" * 30) for n in range(odd, 6000, 2)], stripe_size=1)
        for odd in (0, 1)
    ]
    return insert_task(tmp_path / "out", inputs, delete_files(tmp_path))


def delete_files(tmp_path: Path) -> list[Any]:
    return [write_acid(tmp_path / f"d{by}", [delete(1, 7 * n + by, by=by) for n in range(100)]) for by in (2, 3)]


@pytest.fixture(params=["rewritten", "copied", "delete events"])
def task(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MergeTask:
    monkeypatch.setattr(deletes, "_BLOCK", 40)
    if request.param == "delete events":
        return delete_task(tmp_path / "out", delete_files(tmp_path))
    if request.param == "rewritten":
        return large(tmp_path)
    monkeypatch.setattr(engine, "COPY_ROWS", 0)
    files = sorted((FIXTURES / "hive-3.1.3/table_txn_001/before").glob("delta_*/bucket_00000"))
    return insert_task(tmp_path / "out", [InputFile(str(path)) for path in files])


class Steps:
    """The steps of a task, in order, and the checks between them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen = ["check"]
        self._patch = monkeypatch
        for owner, name in [
            (Stripe, "open"),
            (OpenStripe, "column"),
            (OrcWriter, "copy_stripe"),
            (engine, "open_source"),
            (verify, "stripe_checksum"),
        ]:
            self._note(owner, name)
        blocks = OpenStripe.key_blocks
        monkeypatch.setattr(OpenStripe, "key_blocks", lambda *args, **more: self._blocks(blocks(*args, **more)))

    def check(self) -> None:
        self.seen.append("check")

    def _note(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def noted(*args: Any, **more: Any) -> Any:
            self.seen.append(name)
            return real(*args, **more)

        self._patch.setattr(owner, name, noted)

    def _blocks(self, blocks: Iterator[Any]) -> Iterator[Any]:
        for block in blocks:
            self.seen.append("block")
            yield block

    def unchecked(self) -> list[tuple[str, str]]:
        """The steps, each with the one before it, between which there was no check."""
        steps = zip(self.seen, self.seen[1:], strict=False)
        return [pair for pair in steps if "check" not in pair and pair not in WITHIN_ONE]


WITHIN_ONE = {("column", "column"), ("open", "block")}
"""One column of both files is one step. Delete events are read from the stripe that was opened."""


def test_each_step_follows_a_check(task: MergeTask, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    result = merge_bucket(task, check=steps.check)
    verify_output(task, result, check=steps.check)
    assert len(steps.seen) > 10
    assert steps.seen.count("copy_stripe") == len(result.copied) == (3 if "table_txn_001" in task.inputs[0].path else 0)
    assert steps.unchecked() == []


def test_each_stripe_that_is_stitched_follows_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "COPY_ROWS", 0)
    files = [write_acid(tmp_path / f"{write_id}", [insert(write_id, 0)]) for write_id in (1, 2)]
    (first, second) = (merge_bucket(insert_task(tmp_path / f"{file.path}.part", [file])) for file in files)
    steps = Steps(monkeypatch)
    stitch_parts([first, second], str(tmp_path / "out"), check=steps.check)
    verify_stitched(str(tmp_path / "out"), [first, second], check=steps.check)
    assert [steps.seen.count(step) for step in ("copy_stripe", "stripe_checksum")] == [2, 2]
    assert steps.unchecked() == []


def test_a_task_that_is_ended_leaves_no_output(task: MergeTask) -> None:
    """At whichever step."""
    ended, result = 0, None
    while result is None:
        with suppress(End):
            result = _merged(replace(task, output=f"{task.output}.{ended}"), steps=ended)
        ended += result is None
    assert ended > 3
    assert sorted(Path(task.output).parent.glob("out*")) == [Path(result.output)]


def _merged(task: MergeTask, *, steps: int) -> MergeResult:
    """Merge, and end it after so many steps."""
    left = iter(range(steps))

    def check() -> None:
        if next(left, None) is None:
            raise End

    return merge_bucket(task, check=check)
