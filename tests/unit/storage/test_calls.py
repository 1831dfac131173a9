"""Calls that may hang: given up in time, and never more of them than the limit."""

import threading
from collections.abc import Iterator

import pytest

from compaction_operator.storage.calls import BoundedCalls, NoAnswer


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Calls that wait for it hang until the test's end."""
    gate = threading.Event()
    yield gate
    gate.set()


def _fail() -> None:
    raise LookupError("of the call's own")


def test_a_call_returns_or_raises_as_it_does() -> None:
    calls = BoundedCalls(1)
    assert calls.make(lambda: 17, timeout=60) == 17
    with pytest.raises(LookupError, match="of the call's own"):
        calls.make(_fail, timeout=60)
    assert calls.make(lambda: 18, timeout=60) == 18


def test_a_call_that_raises_a_time_out_of_its_own_is_not_given_up() -> None:
    def time_out() -> None:
        raise TimeoutError("of the call's own")

    with pytest.raises(TimeoutError, match="of the call's own"):
        BoundedCalls(1).make(time_out, timeout=60)


def test_a_panic_is_raised_where_the_call_was_made() -> None:
    """Panics of libraries in Rust are no Exceptions. The thread goes on with the next call."""

    class PanicError(BaseException):
        pass

    def panic() -> None:
        raise PanicError

    calls = BoundedCalls(1)
    with pytest.raises(PanicError):
        calls.make(panic, timeout=60)
    assert calls.make(lambda: 17, timeout=60) == 17


def test_threads_are_used_again() -> None:
    calls = BoundedCalls(8)
    threads = {calls.make(threading.get_ident, timeout=60) for _ in range(100)}
    assert len(threads) == 1


def test_calls_that_hang_fill_the_limit_and_later_ones_are_refused(gate: threading.Event) -> None:
    """A call that was refused has not begun: it may be made again, even if it changes something."""
    calls = BoundedCalls(2)
    begun = []
    for _ in range(2):
        with pytest.raises(NoAnswer, match="no answer for") as raised:
            calls.make(gate.wait, timeout=0.01)
        assert raised.value.begun
    with pytest.raises(NoAnswer, match="2 earlier calls have no answer yet") as raised:
        calls.make(lambda: begun.append(1), timeout=0.01)
    assert not raised.value.begun and not begun
    gate.set()
    assert calls.make(lambda: 17, timeout=60) == 17


def test_as_many_calls_as_the_limit_are_made_side_by_side() -> None:
    calls, together = BoundedCalls(4), threading.Barrier(4)
    makers = [threading.Thread(target=lambda: calls.make(together.wait, timeout=60)) for _ in range(4)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(60)
    assert not together.broken and not any(maker.is_alive() for maker in makers)
