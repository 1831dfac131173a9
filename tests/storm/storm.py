"""A storm: readers, writers and compactions at once, until time is up or the first error."""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from tests.storm.readers import Manner, Reader
from tests.storm.scene import Scene
from tests.storm.writers import Writer

log = logging.getLogger(__name__)

READERS = (Manner.PROMPT, Manner.PROMPT, Manner.LATE, Manner.LATE, Manner.LOCKLESS, Manner.LOCKLESS)
WRITERS = 2
JOIN_SECONDS = 300.0


class Actor(Protocol):
    """One who takes part."""

    name: str

    def step(self) -> None:
        """Do one thing and rest; raises what ends the storm."""


class Storm:
    """Runs all who take part, each in a thread; `run` raises the first error of any of them."""

    def __init__(self, scene: Scene, compactors: Sequence[Actor]) -> None:
        self._scene = scene
        self._errors: list[BaseException] = []
        readers = [Reader(scene, number, manner) for number, manner in enumerate(READERS)]
        writers = [Writer(scene, number) for number in range(WRITERS)]
        self._actors: list[Actor] = [*readers, *writers, *compactors]

    def run(self, seconds: float) -> None:
        """Storm for that long; returns when everybody has ended what they were at."""
        threads = [
            threading.Thread(target=self._act, args=(actor,), name=actor.name, daemon=True) for actor in self._actors
        ]
        for thread in threads:
            thread.start()
        self._scene.calm.wait(seconds)
        self._scene.calm.set()
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._errors:
            raise self._errors[0]
        if stuck := [thread.name for thread in threads if thread.is_alive()]:
            raise TimeoutError(f"not done {JOIN_SECONDS:g} s after the storm: {', '.join(stuck)}")

    def _act(self, actor: Actor) -> None:
        try:
            while not self._scene.calm.is_set():
                actor.step()
        except BaseException as error:  # whatever it is, it ends the storm
            log.exception("%s", actor.name)
            self._errors.append(error)
            self._scene.calm.set()
