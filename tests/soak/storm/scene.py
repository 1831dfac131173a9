"""What all who take part in a storm share."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.integration.oracle.hive import HiveOracle
from tests.soak.storm.session import Sessions
from tests.soak.storm.tables import StormTable


class Tally:
    """Counts what happened, from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, what: str, number: int = 1) -> None:
        """Count something."""
        with self._lock:
            self._counts[what] += number

    def __getitem__(self, what: str) -> int:
        with self._lock:
            return self._counts[what]


@dataclass(frozen=True)
class Scene:
    """One storm's surroundings. `pace` multiplies every pause; `calm` is set when no new work is to begin."""

    version: int
    seed: int
    sessions: Sessions
    hives: Sequence[HiveOracle]
    tables: Sequence[StormTable]
    pace: float = 1.0
    calm: threading.Event = field(default_factory=threading.Event)
    tally: Tally = field(default_factory=Tally)

    def random(self, who: str) -> Random:
        """Return the choices of one who takes part: the same for a seed, whatever the others do."""
        return Random(f"{self.seed}/{self.version}/{who}")

    def pause(self, rng: Random, longest: float) -> None:
        """Wait for some time up to that many seconds, not longer than the storm."""
        self.calm.wait(rng.uniform(0, longest) * self.pace)
