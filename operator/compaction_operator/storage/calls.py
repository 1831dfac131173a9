"""Calls of a library that has no time-outs: each is given up in time, and a bounded number of them hang."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from compaction_operator.errors import OperatorError

T = TypeVar("T")


class NoAnswer(OperatorError):  # noqa: N818 # it says what happened
    """A call was given up. Whether it was or will be carried out is not known, unless `begun` is false."""

    def __init__(self, message: str, *, begun: bool) -> None:
        super().__init__(message)
        self.begun = begun


class BoundedCalls:
    """Makes each call in one of at most `limit` threads. Thread-safe.

    NB: a call that was given up keeps its thread until it ends by itself. The threads do not keep the process alive.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = threading.BoundedSemaphore(limit)
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def make(self, call: Callable[[], T], *, timeout: float) -> T:
        """Return what the call returns, or raise what it raises. Raises NoAnswer after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        if not self._free.acquire(timeout=timeout):
            raise NoAnswer(f"{self._limit} earlier calls have no answer yet", begun=False)
        answer: Future[T] = Future()
        self._jobs.put((answer, call))
        self._start_unless_idle()
        try:
            return answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            if answer.done():
                return answer.result()
            raise NoAnswer(f"no answer for {timeout:g} s", begun=True) from None

    def _start_unless_idle(self) -> None:
        """Have a thread for the job that was put. There are no more jobs than slots, so no more threads either."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                return
        threading.Thread(target=self._work, name="storage call", daemon=True).start()

    def _work(self) -> None:
        while True:
            answer, call = self._jobs.get()
            outcome = _outcome(call)
            with self._lock:
                self._idle += 1
            self._free.release()
            _give(outcome, answer)
            del answer, call, outcome  # NB: or they would live until the next job


def _outcome(call: Callable[[], T]) -> tuple[T] | BaseException:
    """Make the call. NB: a panic of a library in Rust is a BaseException."""
    try:
        return (call(),)
    except BaseException as error:
        return error


def _give(outcome: tuple[T] | BaseException, answer: "Future[T]") -> None:
    if isinstance(outcome, BaseException):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome[0])
