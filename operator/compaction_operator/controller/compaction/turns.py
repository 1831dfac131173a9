"""Turns: one running attempt per table over all namespaces, and a limit on all running attempts.

A compaction that may start waits in line until it is offered a slot. Offers go to the oldest, as many as there are free
slots: one that ends wakes one, however many wait. Time is an argument, and all of it is found again from the cluster's
state: after a restart each compaction is looked at once and enters the line.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from compaction_operator.api.config import OperatorConfig
from compaction_operator.controller.compaction.line import Age, Line
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.resources import Compaction, Key, TableKey
from compaction_operator.controller.kube.times import parse_time
from compaction_operator.controller.policy import may_use

PREFLIGHTS = 4
"""Preflights of a warehouse at a time. Each holds a thread and a connection to the metastore."""
PATIENCE = 3.0
"""Seconds for which a slot waits for a preflight. Doubled for a compaction each time it was too slow, so that it gets
its slot in the end."""
TOLD = 2
"""Compactions of a table to look at when it is freed: the one that may go on, and the one that waits for it."""


class Turn(NamedTuple):
    """What a compaction waits for before its next attempt (None: nothing), and whether it has a slot to start it."""

    waits_for: str | None
    has_come: bool = False


@dataclass
class _Claim:
    """A table's next attempt, from its turn to its record. A slow preflight gives the slot back and keeps the table."""

    key: Key
    warehouse: str
    since: float
    has_slot: bool = True


class Turns:
    """Determines what each compaction waits for, and whose turn it is.

    A claim holds a table between the decision and the recorded attempt.
    """

    def __init__(self, cache: Cache, config: OperatorConfig) -> None:
        self._cache = cache
        self._config = config
        self._claims: dict[TableKey, _Claim] = {}
        self._offers: dict[Key, str] = {}
        self._tables: Line[TableKey] = Line()
        self._slots: Line[str] = Line()
        self._untold: set[Key] = set()
        self._patience: dict[Key, float] = {}

    def look(self, compaction: Compaction, now: datetime) -> Turn:
        """Return whether it is a compaction's turn, to be claimed at once; otherwise it waits in line from here on.

        One that is suspended or backs off has no turn and does not wait: it comes again by itself.
        """
        offered = self._leave(compaction.key)
        if not _eligible(compaction, now):
            return Turn(None)
        blocked = self._table_blocked(compaction, now)
        if blocked is not None:
            self._tables.enter(Age.of(compaction), self._place(compaction), told=blocked)
            return Turn(blocked)
        if offered:
            return Turn(None, has_come=True)
        full = self._full(compaction)
        self._slots.enter(Age.of(compaction), compaction.spec.warehouse, told=full)
        if full is None:
            self._untold.add(compaction.key)
        return Turn(full)

    def forget(self, key: Key) -> None:
        """Stop treating a compaction as waiting: it has ended or is gone."""
        self._leave(key)
        self._patience.pop(key, None)

    def wake(self, now: datetime) -> list[Key]:
        """Return whom to look at, after anything has changed: the oldest get the free slots, once.

        Those that came while slots were free, and got none, have to be told once there are none.
        """
        woken = [key for table in self._cache.freed for key in self._go_on(table, now)]
        self._cache.freed.clear()
        if not len(self._slots):
            return woken
        for key in self._slots.first_of(self._rooms(), self._free()):
            compaction = self._cache.compactions.get(key)
            self._slots.leave(key)
            if compaction is not None:
                self._offers[key] = compaction.spec.warehouse
                woken.append(key)
        if self._untold and self._free() <= 0:
            woken += self._untold - self._offers.keys()
            self._untold.clear()
        return woken

    def is_offered(self, key: Key) -> bool:
        """Whether a compaction has been offered a slot and not been looked at since."""
        return key in self._offers

    def doubtful(self, now: datetime, *, stale: int) -> Iterator[Key]:
        """Yield the safety net's finds: who waits without being in line, or for what is over.

        At most `stale` of them only say what is no longer true: each costs a write.
        """
        for compaction in self._cache.compactions.all():
            key = compaction.key
            if compaction.ended or compaction.attempt_running or compaction.spec.suspend:
                continue
            if key not in self._tables and key not in self._slots:
                yield key
                continue
            blocked = self._table_blocked(compaction, now)
            if (blocked is None) != (key in self._slots):
                yield key
            elif blocked is not None and blocked != self._tables.told(key) and stale > 0:
                stale -= 1
                yield key

    def claim(self, compaction: Compaction, *, ticks: float) -> None:
        """Hold the compaction's table and a slot for it until `release`."""
        claim = _Claim(compaction.key, compaction.spec.warehouse, ticks)
        self._claims[self._place(compaction)] = claim

    def release(self, compaction: Compaction) -> None:
        """Release the claim: an attempt recorded meanwhile holds the table and its slot by itself.

        NB: earlier writes may have woken other compactions that still found the claim.
        """
        place = self._place(compaction)
        claim = self._claims.get(place)
        if claim is not None and claim.key == compaction.key:
            del self._claims[place]
            self._cache.freed.add(place)

    def give_way(self, ticks: float) -> None:
        """Take the slots from preflights that are too slow: others could start meanwhile."""
        for claim in self._in_preflight():
            if claim.has_slot and self._due(claim) <= ticks:
                claim.has_slot = False
                self._patience[claim.key] = 2 * self._patience.get(claim.key, PATIENCE)

    def next_due(self) -> float | None:
        """Return the time of the next `give_way`, None if no preflight has a slot or none waits for one."""
        if not len(self._slots):
            return None
        return min((self._due(claim) for claim in self._in_preflight() if claim.has_slot), default=None)

    def keep(self, compaction: Compaction) -> str | None:
        """Return what a compaction waits for after its preflight, None if it still has its slot or got another."""
        claim = self._claims.get(self._place(compaction))
        if claim is None or claim.key != compaction.key:  # it was deleted meanwhile, and another one took its table
            return "its table"
        if not claim.has_slot:
            full = self._full(compaction)
            if full is not None:
                self._slots.enter(Age.of(compaction), compaction.spec.warehouse, told=full)
                return full
            claim.has_slot = True
        self._patience.pop(compaction.key, None)
        return None

    def _go_on(self, table: TableKey, now: datetime) -> Iterator[Key]:
        """Let the next one of a freed table wait for a slot; yield it, and what waits for another thing from now on."""
        found = map(self._cache.compactions.get, self._tables.all(table))
        for compaction in list(islice((one for one in found if one is not None and _eligible(one, now)), TOLD)):
            if self._table_blocked(compaction, now) is None:
                told = self._tables.told(compaction.key)
                self._tables.leave(compaction.key)
                self._slots.enter(Age.of(compaction), compaction.spec.warehouse, told=told)
            yield compaction.key

    def _table_blocked(self, compaction: Compaction, now: datetime) -> str | None:
        """Return what occupies the table.

        Compactions of a table run by age. None starts until the result of every earlier attempt is known: the fence of
        that attempt's cleanup would remove the new attempt's staging.
        """
        mates = [mate for mate in self._cache.compactions.of_table(compaction.table) if mate.key != compaction.key]
        claim = self._claims.get(self._place(compaction))
        for mate in mates:
            if mate.attempt_running or (claim is not None and mate.key == claim.key):
                return f"compaction {mate.key}, which works on the same table"
        older = min((mate for mate in mates if _eligible(mate, now)), key=Age.of, default=None)
        if older is not None and Age.of(older) < Age.of(compaction):
            return f"compaction {older.key}, which is older"
        for cleanup in self._cache.cleanups.of_table(compaction.table):
            # NB: a cleanup without permission is never settled, so it must not block anything.
            if not (cleanup.settled or cleanup.ended) and may_use(cleanup, self._config):
                return f"cleanup {cleanup.key}, which determines what was published"
        return None

    def _leave(self, key: Key) -> bool:
        """Leave the line; return whether there was an offer."""
        self._tables.leave(key)
        self._slots.leave(key)
        self._untold.discard(key)
        return self._offers.pop(key, None) is not None

    def _place(self, compaction: Compaction) -> TableKey:
        return self._cache.place(compaction.table)

    def _full(self, compaction: Compaction) -> str | None:
        """Return why a compaction gets no slot now: those that wait and are older come first."""
        if self._free() > self._slots.ahead_of(Age.of(compaction), self._rooms()):
            return None
        return f"one of {self._config.max_concurrent_jobs} running compactions to end (maxConcurrentJobs)"

    def _free(self) -> int:
        """Return how many slots are neither taken nor offered."""
        starting = sum(claim.has_slot for claim in self._in_preflight())
        return self._config.max_concurrent_jobs - len(self._cache.running) - starting - len(self._offers)

    def _rooms(self) -> dict[str, int]:
        """Return how many more preflights each warehouse can take, of the warehouses for which any compaction waits.

        NB: without this limit a metastore that hangs would be offered each free slot by the age of its compactions.
        """
        busy = Counter(self._offers.values()) + Counter(claim.warehouse for claim in self._in_preflight())
        return {warehouse: PREFLIGHTS - busy[warehouse] for warehouse in self._slots.lanes()}

    def _in_preflight(self) -> Iterable[_Claim]:
        return [claim for claim in self._claims.values() if claim.key not in self._cache.running]

    def _due(self, claim: _Claim) -> float:
        return claim.since + self._patience.get(claim.key, PATIENCE)


def _eligible(compaction: Compaction, now: datetime) -> bool:
    """Whether it would start if it were its turn.

    A suspended compaction, or one that backs off, lets younger ones go first.
    """
    due = compaction.status.next_attempt_time
    backs_off = due is not None and parse_time(due) > now
    return not (compaction.ended or compaction.attempt_running or compaction.spec.suspend or backs_off)
