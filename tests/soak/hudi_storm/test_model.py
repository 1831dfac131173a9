"""The storm's own judge: what it expects of Hudi's merging, and that it sees every kind of damage."""

from random import Random

import pytest

from tests.soak.hudi_storm.model import MergeMode, Model, Row, Write


def _model(mode: MergeMode) -> Model:
    model = Model(mode)
    model.apply(Write(upserts=(Row(1, 10, "a"), Row(2, 10, "b"))))
    return model


def test_under_event_time_a_late_row_does_not_hold() -> None:
    model = _model(MergeMode.EVENT_TIME)
    model.apply(Write(upserts=(Row(1, 9, "late"), Row(2, 11, "new"))))
    assert model.rows == {1: Row(1, 10, "a"), 2: Row(2, 11, "new")}


def test_under_commit_time_the_row_written_last_holds() -> None:
    model = _model(MergeMode.COMMIT_TIME)
    model.apply(Write(upserts=(Row(1, 9, "late"),)))
    assert model.rows[1] == Row(1, 9, "late")


def test_lost_doubled_wrong_and_resurrected_rows_are_seen() -> None:
    model = _model(MergeMode.EVENT_TIME)
    assert model.differences([Row(2, 10, "b"), Row(1, 10, "a")]) == []
    assert model.differences([Row(1, 10, "a")]) == ["lost: Row(id=2, ts=10, value='b')"]
    assert [said.split(":")[0] for said in model.differences([*model.rows.values(), Row(1, 10, "a")])] == ["doubled"]
    assert [said.split(":")[0] for said in model.differences([Row(1, 9, "z"), Row(2, 10, "b")])] == ["wrong"]
    model.apply(Write(deletes=(2,)))
    assert [said.split(":")[0] for said in model.differences([Row(1, 10, "a"), Row(2, 10, "b")])] == ["wrong"]


def test_a_seed_repeats_the_writes_and_they_hold_late_rows_inserts_and_deletes() -> None:
    def writes() -> list[Write]:
        model, rng, made = Model(MergeMode.EVENT_TIME), Random(1), []
        for _ in range(12):
            made.append(model.next_write(rng))
            model.apply(made[-1])
        return made

    made = writes()
    assert made == writes()
    assert any(write.deletes for write in made)
    assert len({row.id for write in made for row in write.upserts}) > len(made[0].upserts)
    assert any(row.ts % 10 for write in made for row in write.upserts)


@pytest.mark.parametrize("mode", MergeMode)
def test_deleted_keys_come_back_as_the_newest_rows(mode: MergeMode) -> None:
    """Otherwise no row would tell a delete that a compaction lost from one that was kept until then."""
    model, rng, came_back = Model(mode), Random(1), 0
    for number in range(1, 20):
        write = model.next_write(rng)
        back = [row for row in write.upserts if row.id in model.gone]
        assert all(row.ts == number * 10 for row in back)
        model.apply(write)
        assert all(model.rows[row.id] == row for row in back)
        assert not model.gone & model.rows.keys()
        came_back += len(back)
    assert came_back and model.gone
