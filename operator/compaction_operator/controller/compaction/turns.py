"""Turns: one running attempt per table over all namespaces, and a limit on all running attempts.

A compaction that may start waits in line until it is offered a slot. Offers go to the oldest, as many as there are free
slots: one that ends wakes one, however many wait. Time is an argument, and all of it is found again from the cluster's
state: after a restart each compaction is looked at once and enters the line.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from compaction_operator.api.config import OperatorConfig
from compaction_operator.controller.compaction.occupants import Occupants, eligible
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.line import Age, Line
from compaction_operator.controller.kube.resources import Compaction, Key, TableKey

PREFLIGHTS = 4
"""Preflights of a warehouse at a time. Each holds a thread and a connection to the metastore."""
REPEATED = 1
"""Of these, for compactions whose last preflight failed while others of the warehouse wait: neither kind starves."""
PATIENCE = 3.0
"""Seconds for which a slot waits for a preflight. Doubled for a compaction whose preflight was too slow but succeeded,
so that it gets its slot in the end."""
SEARCHED = 50
"""Tables that the safety net looks at between two pauses, in which other work goes on."""
TOLD = 2
"""Compactions of a table to look at when it is freed: the one that may go on, and the one that waits for it."""


class Turn(NamedTuple):
    """What a compaction waits for before its next attempt (None: nothing), and whether it has a slot to start it."""

    waits_for: str | None
    has_come: bool = False


class _Lane(NamedTuple):
    """Who waits for a preflight of a warehouse. Those whose last preflight failed wait apart."""

    warehouse: str
    failed: bool


class _Openings(NamedTuple):
    """How many more preflights each lane can take, and how many slots are neither taken nor offered."""

    rooms: dict[_Lane, int]
    free: int


@dataclass
class _Claim:
    """A table's next attempt, from its turn to its record. A slow preflight gives the slot back and keeps the table.

    `kept` means that the preflight is over and the attempt is being recorded: nothing takes the slot from then on.
    `doubt` is the version at which a write of the attempt had no answer.
    """

    key: Key
    lane: _Lane
    due: float
    has_slot: bool = True
    kept: bool = False
    doubt: int | None = None


class Turns:
    """Determines what each compaction waits for, and whose turn it is.

    A claim holds a table between the decision and the recorded attempt. `sees` is whether a namespace is watched now.
    """

    def __init__(self, cache: Cache, config: OperatorConfig, *, sees: Callable[[str], bool] = lambda _: True) -> None:
        self._cache = cache
        self._config = config
        self._sees = sees
        self._claims: dict[TableKey, _Claim] = {}
        self._offers: dict[Key, _Lane] = {}
        self._tables: Line[TableKey] = Line()
        self._slots: Line[_Lane] = Line()
        self._untold: set[Key] = set()
        self._to_tell: set[Key] = set()
        self._patience: dict[Key, float] = {}

    def look(self, compaction: Compaction, now: datetime) -> Turn:
        """Return whether it is a compaction's turn, to be claimed at once; otherwise it waits in line from here on.

        One that is suspended or backs off has no turn and does not wait: it comes again by itself.
        """
        waited = compaction.key in self._slots
        offered = self._leave(compaction.key)
        if self._holds_claim(compaction.key):
            return Turn(None, has_come=True)
        if not eligible(compaction, now):
            return Turn(None)
        blocked = self._occupants(compaction.table, now).before(compaction)
        if blocked is not None:
            self._tables.enter(Age.of(compaction), self._place(compaction), told=blocked)
            return Turn(blocked)
        if offered:
            return Turn(None, has_come=True)
        waits_for = self._waits_for(compaction, self._openings(), waited=waited)
        self._wait_for_slot(compaction, told=waits_for)
        if waits_for is None:
            self._untold.add(compaction.key)
        return Turn(waits_for)

    def forget(self, key: Key) -> None:
        """Stop treating a compaction as waiting: its attempt runs, or it has ended or is gone."""
        self._leave(key)
        self._holds_claim(key)
        self._patience.pop(key, None)

    def lose_sight(self, key: Key) -> None:
        """Do so because nothing is heard of it any more. Where its attempt may be recorded, it keeps only its table."""
        self.forget(key)
        for claim in self._claims.values():
            if claim.key == key:
                claim.has_slot = False

    def wake(self, now: datetime) -> list[Key]:
        """Return whom to look at, after anything has changed: the oldest get the free slots, once.

        Those that came while slots were free, and got none, have to be told once there are none, or once the preflights
        before theirs are slow.
        """
        woken = [key for table in self._cache.freed for key in self._go_on(table, now)]
        self._cache.freed.clear()
        if not len(self._slots):
            return woken
        for key in self._slots.first_of(*self._openings()):
            compaction, lane = self._cache.compactions.get(key), self._slots.lane(key)
            self._slots.leave(key)
            self._untold.discard(key)
            if compaction is not None:
                woken.append(key)
                # NB: an attempt whose record was written without an answer runs already.
                if eligible(compaction, now):
                    self._offers[key] = lane
        return woken + self._take_to_tell()

    def is_offered(self, key: Key) -> bool:
        """Whether a compaction has been offered a slot and not been looked at since."""
        return key in self._offers

    def doubtful(self, now: datetime, *, stale: int) -> Iterator[list[Key]]:
        """Yield the safety net's finds, some tables at a time: who waits without being in line, or for what is over.

        At most `stale` of them only say what is no longer true: each costs a write. Anything may change between two
        lists.
        """
        tables = list(self._cache.candidates.lanes())
        for start in range(0, len(tables), SEARCHED):
            openings, found = self._openings(), list[Key]()
            for table in tables[start : start + SEARCHED]:
                of_table, wrong = self._search(table, now, openings, stale=stale)
                found += of_table
                stale -= wrong
            yield found

    def _search(self, table: TableKey, now: datetime, openings: _Openings, *, stale: int) -> tuple[list[Key], int]:
        """Return a table's finds, and how many of them only say what is no longer true."""
        occupants, found, wrong = self._occupants(table, now), list[Key](), 0
        for compaction in filter(None, map(self._cache.compactions.get, self._cache.candidates.all(table))):
            key, blocked = compaction.key, occupants.before(compaction)
            if key not in (self._slots if blocked is None else self._tables):
                found.append(key)
            elif wrong < stale and self._says_otherwise(compaction, blocked, openings):
                wrong += 1
                found.append(key)
        return found, wrong

    def claim(self, compaction: Compaction, *, ticks: float) -> None:
        """Hold the compaction's table and a slot for it until `release`.

        No slot waits longer for a preflight that fails.
        """
        key, lane, place = compaction.key, self._lane(compaction), self._place(compaction)
        if lane.failed:
            self._patience.pop(key, None)
        held = self._claims.get(place)
        if held is None or held.key != key:
            self._claims[place] = _Claim(key, lane, ticks + self._patience.get(key, PATIENCE))

    def release(self, compaction: Compaction, *, sure: bool = True) -> None:
        """Release the claim: an attempt recorded meanwhile holds the table and its slot by itself.

        Unless it is `sure` that a write had an answer, the attempt may be recorded: the claim stays until a newer
        version of the compaction is known.
        NB: earlier writes may have woken other compactions that still found the claim.
        """
        place = self._place(compaction)
        claim = self._claims.get(place)
        if claim is None or claim.key != compaction.key:
            return
        if claim.kept and not sure:
            claim.doubt = compaction.meta.resource_version
        if not self._in_doubt(claim):
            self._drop(place)

    def give_way(self, ticks: float) -> None:
        """Take the slots from preflights that are too slow: others could start meanwhile."""
        for claim in self._claims.values():
            if claim.has_slot and not claim.kept and claim.due <= ticks:
                claim.has_slot = False
                self._patience[claim.key] = 2 * self._patience.get(claim.key, PATIENCE)
                warehouse = claim.lane.warehouse
                self._to_tell |= {key for key in self._untold if self._slots.lane(key).warehouse == warehouse}

    def next_due(self) -> float | None:
        """Return the time of the next `give_way`, None if no preflight has a slot or none waits for one."""
        if not len(self._slots):
            return None
        return min((claim.due for claim in self._claims.values() if claim.has_slot and not claim.kept), default=None)

    def keep(self, compaction: Compaction) -> str | None:
        """Return what a compaction waits for after its preflight, None if it still has its slot or got another."""
        claim = self._claims.get(self._place(compaction))
        if claim is None or claim.key != compaction.key:  # it was deleted meanwhile, and another one took its table
            return "its table"
        if not claim.has_slot:
            rooms, free = self._openings()
            if free <= self._slots.ahead_of(Age.of(compaction), rooms):
                self._wait_for_slot(compaction, told=self._full)
                return self._full
            claim.has_slot = True
        claim.kept = True
        self._patience.pop(compaction.key, None)
        return None

    def _go_on(self, table: TableKey, now: datetime) -> Iterator[Key]:
        """Let the next one of a freed table wait for a slot; yield it, and what waits for another thing from now on."""
        found = map(self._cache.compactions.get, self._tables.all(table))
        first = list(islice((one for one in found if one is not None and eligible(one, now)), TOLD))
        occupants = self._occupants(table, now) if first else None
        for compaction in first:
            if occupants is not None and occupants.before(compaction) is None:
                self._wait_for_slot(compaction, told=self._tables.told(compaction.key))
                self._tables.leave(compaction.key)
            yield compaction.key

    def _occupants(self, table: TableKey, now: datetime) -> Occupants:
        claim = self._claims.get(self._cache.place(table))
        claimed_by = claim.key if claim is not None else None
        return Occupants(self._cache, table, config=self._config, claimed_by=claimed_by, now=now, sees=self._sees)

    def _wait_for_slot(self, compaction: Compaction, *, told: str | None) -> None:
        self._slots.enter(Age.of(compaction), self._lane(compaction), told=told)

    def _leave(self, key: Key) -> bool:
        """Leave the line; return whether there was an offer."""
        self._tables.leave(key)
        self._slots.leave(key)
        self._untold.discard(key)
        self._to_tell.discard(key)
        return self._offers.pop(key, None) is not None

    def _holds_claim(self, key: Key) -> bool:
        """Whether a compaction still has a claim because its attempt may be recorded. Once that is known, drop it."""
        for place, claim in list(self._claims.items()):
            if claim.key == key:
                if self._in_doubt(claim):
                    return True
                self._drop(place)
        return False

    def _in_doubt(self, claim: _Claim) -> bool:
        known = self._cache.compactions.get(claim.key)
        return known is not None and known.meta.resource_version == claim.doubt

    def _drop(self, place: TableKey) -> None:
        del self._claims[place]
        self._cache.freed.add(place)

    def _take_to_tell(self) -> list[Key]:
        if self._untold and self._free() <= 0:
            self._to_tell |= self._untold
        self._untold -= self._to_tell
        told = [key for key in self._to_tell if key not in self._offers]
        self._to_tell.clear()
        return told

    def _place(self, compaction: Compaction) -> TableKey:
        return self._cache.place(compaction.table)

    def _lane(self, compaction: Compaction) -> _Lane:
        return _Lane(compaction.spec.warehouse, compaction.preflight_failed)

    def _says_otherwise(self, compaction: Compaction, blocked: str | None, openings: _Openings) -> bool:
        """Whether the status of one that waits names what it does not wait for, or nothing."""
        if blocked is not None:
            return blocked != self._tables.told(compaction.key)
        waits_for = self._waits_for(compaction, openings, waited=True)
        return waits_for is not None and waits_for != self._slots.told(compaction.key)

    def _waits_for(self, compaction: Compaction, openings: _Openings, *, waited: bool) -> str | None:
        """Return why a compaction gets no slot now: those that wait and come before it in line come first.

        One that merely waits for other preflights says so only if they are slow or if it has `waited`: its turn may
        come at once.
        """
        age, lane = Age.of(compaction), self._lane(compaction)
        rooms, free = openings if lane in openings.rooms else self._openings(lane)
        no_room = self._slots.ahead_in(lane, age) >= rooms[lane]
        preflight = f"a preflight of warehouse {lane.warehouse} to end"
        if no_room and self._is_slow(lane.warehouse):
            return preflight
        if free <= self._slots.ahead_of(age, rooms):
            return self._full
        return preflight if no_room and waited else None

    @property
    def _full(self) -> str:
        return f"one of {self._config.max_concurrent_jobs} running compactions to end (maxConcurrentJobs)"

    def _openings(self, *more: _Lane) -> _Openings:
        return _Openings(self._rooms(*more), self._free())

    def _free(self) -> int:
        """Return how many slots are neither taken nor offered.

        NB: an attempt whose warehouse is no longer configured can only be ended once it is again: until then it holds
        its table, and no slot of the others.
        """
        running = self._cache.running
        starting = sum(claim.has_slot for claim in self._claims.values() if claim.key not in running)
        taken = sum(self._config.warehouse(self._warehouse_of(key)) is not None for key in running)
        return self._config.max_concurrent_jobs - taken - starting - len(self._offers)

    def _warehouse_of(self, key: Key) -> str:
        compaction = self._cache.compactions.get(key)
        return compaction.spec.warehouse if compaction is not None else ""

    def _rooms(self, *more: _Lane) -> dict[_Lane, int]:
        """Return how many more preflights each lane can take, of those in which any compaction waits, and of `more`.

        NB: without this limit a metastore that hangs would be offered each free slot by the age of its compactions.
        """
        asking = [*self._offers.values(), *(claim.lane for claim in self._claims.values() if not claim.kept)]
        busy, repeated = Counter(lane.warehouse for lane in asking), Counter(asking)
        rooms = {lane: PREFLIGHTS - busy[lane.warehouse] for lane in {*self._slots.lanes(), *more}}
        for lane, room in list(rooms.items()):
            first = lane._replace(failed=False)
            if lane.failed and first in rooms:
                rooms[lane] = max(0, min(room, REPEATED - repeated[lane]))
                rooms[first] = room - rooms[lane]
        return rooms

    def _is_slow(self, warehouse: str) -> bool:
        """Whether a preflight of the warehouse has lost its slot."""
        lost = (claim for claim in self._claims.values() if not (claim.has_slot or claim.kept))
        return any(claim.lane.warehouse == warehouse for claim in lost)
