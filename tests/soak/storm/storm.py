"""A storm: readers, writers and compactions at once, until time is up or the first error."""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from tests.soak.storm.readers import Manner, Reader
from tests.soak.storm.scene import Scene
from tests.soak.storm.writers import Writer

log = logging.getLogger(__name__)

READERS = (Manner.PROMPT, Manner.PROMPT, Manner.LATE, Manner.LATE, Manner.LOCKLESS, Manner.LOCKLESS)
WRITERS = 2
JOIN_SECONDS = 300.0


class Actor(Protocol):
    """One who takes part."""

    name: str

    def step(self) -> None:
        """Do one thing and rest; raises what ends the storm."""


def storm(scene: Scene, compactors: Sequence[Actor], *, seconds: float) -> None:
    """Let readers, writers and compactors act that long, each in a thread; raises the first error of any of them.

    It returns when everybody has ended what they were at.
    """
    errors: list[BaseException] = []
    actors: list[Actor] = [Reader(scene, number, manner) for number, manner in enumerate(READERS)]
    actors += [*(Writer(scene, number) for number in range(WRITERS)), *compactors]
    threads = [
        threading.Thread(target=_act, args=(scene, actor, errors), name=f"{scene.version} {actor.name}", daemon=True)
        for actor in actors
    ]
    for thread in threads:
        thread.start()
    scene.calm.wait(seconds)
    scene.calm.set()
    deadline = time.monotonic() + JOIN_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    if stuck := [thread.name for thread in threads if thread.is_alive()]:
        raise TimeoutError(f"not done {JOIN_SECONDS:g} s after the storm: {', '.join(stuck)}")


def _act(scene: Scene, actor: Actor, errors: list[BaseException]) -> None:
    try:
        while not scene.calm.is_set():
            actor.step()
    except BaseException as error:  # whatever it is, it ends the storm
        log.exception("%s", actor.name)
        errors.append(error)
        scene.calm.set()
