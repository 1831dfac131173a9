"""What a run does with what it finds on the timeline, without a table."""

import pytest

from compaction_operator.hudi import Action, Instant, State, Todo, decide, late, stale

OWN = "team/6f1c/2"


def log_compaction(time: str, state: State = State.REQUESTED, owner: str | None = OWN) -> Instant:
    return Instant(time, Action.LOG_COMPACTION, state, owner)


def compaction(time: str, state: State = State.REQUESTED, owner: str | None = OWN) -> Instant:
    return Instant(time, Action.COMPACTION, state, owner)


def commit(time: str, state: State = State.COMPLETED) -> Instant:
    return Instant(time, Action.DELTA_COMMIT, state)


def decided(instants: list[Instant], *, action: Action, all_instants: bool = False, newest_only: bool = False) -> Todo:
    return decide(instants, action=action, namespace="team", all_instants=all_instants, newest_only=newest_only)


def test_a_log_compaction_that_had_begun_is_rolled_back_and_never_run_again() -> None:
    dead = log_compaction("2", State.INFLIGHT)
    for action in (Action.LOG_COMPACTION, Action.COMPACTION):
        todo = decided([commit("1"), dead], action=action)
        assert (todo.roll_back, todo.remove, todo.run, todo.left) == ((dead,), (), (), ())


@pytest.mark.parametrize("state", list(State))
def test_a_plan_is_removed_once_a_later_compaction_is_on_the_timeline(state: State) -> None:
    plan = log_compaction("2")
    later = compaction("3", state, owner=None)
    todo = decided([plan, later], action=Action.LOG_COMPACTION)
    assert todo.remove == (plan,)
    assert not todo.run
    assert stale([plan, later]) == (plan,)


def test_a_plan_with_an_earlier_compaction_is_run() -> None:
    plan = log_compaction("3")
    todo = decided([compaction("2", State.COMPLETED), plan], action=Action.LOG_COMPACTION)
    assert (todo.run, todo.remove) == ((plan,), ())


def test_a_dead_compaction_is_run_again_as_it_is() -> None:
    dead, waiting = compaction("2", State.INFLIGHT), compaction("3")
    todo = decided([waiting, dead], action=Action.COMPACTION)
    assert todo.run == (dead, waiting)


def test_a_run_leaves_plans_of_the_other_action_to_the_other_one() -> None:
    found = [log_compaction("3"), compaction("2")]
    assert decided(found, action=Action.LOG_COMPACTION).run == (found[0],)
    assert decided(found, action=Action.COMPACTION).run == (found[1],)


def test_what_others_made_is_named_and_left_alone_unless_that_is_asked_for() -> None:
    dead, plan = log_compaction("1", State.INFLIGHT, owner=None), log_compaction("2", owner=None)
    waiting = compaction("3", owner=None)
    clustering = Instant("4", Action.CLUSTERING, State.REQUESTED)
    found = [dead, plan, waiting, clustering, commit("5", State.INFLIGHT)]
    todo = decided(found, action=Action.COMPACTION)
    assert (todo.roll_back, todo.remove, todo.run) == ((), (), ())
    assert todo.left == (dead, plan, waiting, clustering)
    todo = decided(found, action=Action.COMPACTION, all_instants=True)
    assert (todo.roll_back, todo.remove, todo.run) == ((dead,), (plan,), (waiting,))
    assert todo.left == (clustering,)


def test_a_plan_of_another_namespace_is_foreign_because_its_lease_differs() -> None:
    dead = log_compaction("1", State.INFLIGHT, owner="team-2/6f1c/2")
    todo = decided([dead], action=Action.LOG_COMPACTION)
    assert (todo.roll_back, todo.left) == ((), (dead,))


def test_a_foreign_plan_is_not_run_where_merged_blocks_are_replayed_last() -> None:
    """It may span what was written beside it; of this operator's own plans it is known."""
    plan, own = log_compaction("2", owner=None), log_compaction("3")
    todo = decided([plan, own], action=Action.LOG_COMPACTION, all_instants=True, newest_only=True)
    assert (todo.remove, todo.run) == ((plan,), (own,))
    todo = decided([plan, own], action=Action.LOG_COMPACTION, newest_only=True)
    assert (todo.remove, todo.run, todo.left) == ((), (own,), (plan,))


@pytest.mark.parametrize(
    ("seen", "before", "overtaken"),
    [
        pytest.param("1246", "5", "3", id="older-than-the-plan"),
        pytest.param("1236", "5", "4", id="older-than-the-plan-and-completed"),
        pytest.param("1234", "5", "", id="newer-than-the-plan"),
        pytest.param("1234", None, "6", id="newer-where-readers-go-by-the-order-of-writing"),
    ],
)
def test_what_was_not_seen_when_it_was_planned_is_late(seen: str, before: str | None, overtaken: str) -> None:
    found = [*(commit(time) for time in "124"), commit("3", State.INFLIGHT), commit("6"), log_compaction("5")]
    assert {one.time for one in late(found, before=before, seen=set(seen))} == set(overtaken)


def test_an_instant_is_named_as_on_the_timeline() -> None:
    assert str(compaction("20261122095601342", State.INFLIGHT)) == "20261122095601342.compaction.inflight"


def test_where_nothing_may_be_merged_plans_of_log_compactions_are_removed() -> None:
    """A compaction would wait for them without end: nothing else runs them."""
    plan = Instant("10", Action.LOG_COMPACTION, State.REQUESTED, "team/u/1")
    own = {"action": Action.COMPACTION, "namespace": "team", "all_instants": False, "newest_only": True}
    assert decide([plan], **own).remove == ()  # type: ignore[arg-type]
    assert decide([plan], **own, may_merge=False).remove == (plan,)  # type: ignore[arg-type]
    foreign = Instant("10", Action.LOG_COMPACTION, State.REQUESTED, None)
    assert decide([foreign], **own, may_merge=False).left == (foreign,)  # type: ignore[arg-type]
