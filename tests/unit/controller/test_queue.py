"""The work queue: once per key, one at a time, delayed ones in time."""

from compaction_operator.controller.kube.workqueue import WorkQueue


def drain(queue: WorkQueue[str], now: float = 0.0) -> list[str]:
    keys = []
    while (key := queue.pop(now)) is not None:
        keys.append(key)
    return keys


def test_first_in_first_out_and_once_per_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ["a", "b", "a"]:
        queue.add(key)
    assert drain(queue) == ["a", "b"]


def test_a_key_is_never_worked_on_twice_at_a_time() -> None:
    """Added meanwhile, it comes again when it is done, and only once."""
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert queue.pop(0.0) == "a"
    queue.add("a")
    queue.add("a")
    assert queue.pop(0.0) is None
    queue.done("a")
    assert drain(queue) == ["a"]
    queue.done("a")
    assert queue.pop(0.0) is None


def test_delayed_keys_come_when_they_are_due() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_at("late", 20.0)
    queue.add_at("soon", 10.0)
    assert queue.next_due() == 10.0
    assert drain(queue, 9.9) == []
    assert drain(queue, 10.0) == ["soon"]
    assert queue.next_due() == 20.0
    assert drain(queue, 100.0) == ["late"]
    assert queue.next_due() is None


def test_of_several_wishes_the_earliest_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_at("a", 20.0)
    queue.add_at("a", 10.0)
    queue.add_at("a", 30.0)
    assert drain(queue, 10.0) == ["a"]
    queue.done("a")
    assert drain(queue, 100.0) == []


def test_a_delayed_key_that_falls_due_while_worked_on_comes_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.pop(0.0)
    queue.add_at("a", 1.0)
    assert queue.pop(2.0) is None
    queue.done("a")
    assert queue.pop(2.0) == "a"
