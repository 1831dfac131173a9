"""What a run does: a scenario, and the steps of each process at which something breaks. A seed chooses the plan."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from random import Random
from types import MappingProxyType

from compaction_operator.api.model import Model


class Role(StrEnum):
    """Whose steps they are."""

    CONTROLLER = "controller"
    DRIVER = "driver"


class Moment(StrEnum):
    """Before the step has any effect, or after it has had all of it."""

    BEFORE = "before"
    AFTER = "after"


class Action(StrEnum):
    """What happens then.

    KILL: the process with all that it started. TERMINATE: the process is asked to end, as when its node is drained, and
    goes on to its own end. METASTORE: the metastore, while the process waits; it is started again at once, which takes
    some seconds. STORE: the same with the server that has the table's files. STALL: that server hangs for some seconds,
    in which the process goes on. PAUSE: the process is stopped, its node is lost, and another takes its place; it goes
    on when `wake` says. RENAME: another table takes the name of the one that is compacted, while the process waits.
    WORKER: Hive's own Worker begins to compact the same table, while the process waits.
    """

    KILL = "kill"
    TERMINATE = "terminate"
    METASTORE = "metastore"
    PAUSE = "pause"
    STORE = "store"
    STALL = "stall"
    RENAME = "rename"
    WORKER = "Hive's Worker"


class Wake(StrEnum):
    """When what was paused goes on: once another driver runs, once all is published, after the cleanup."""

    RUNNING = "running"
    PUBLISHED = "published"
    CLEANED = "cleaned"


class Step(Model):
    """One operation on something outside the process: the `number`-th of that label in the process's life."""

    role: Role
    label: str
    number: int

    def __str__(self) -> str:
        return f"{self.role} {self.label} #{self.number}"


class Fault(Model):
    """Something breaks at a step of the `life`-th process of its role in the run."""

    step: Step
    moment: Moment
    action: Action
    life: int = 1
    wake: Wake | None = None

    def __str__(self) -> str:
        wake = f" until {self.wake}" if self.wake else ""
        life = f" of life {self.life}" if self.life > 1 else ""
        return f"{self.action}{wake} {self.moment} {self.step}{life}"


class Plan(Model):
    """A whole run. With `spark` its drivers start Spark, without executors; else they do the tasks themselves."""

    scenario: str
    faults: tuple[Fault, ...] = ()
    spark: bool = False

    def __str__(self) -> str:
        return (
            f"{self.scenario}{', Spark' if self.spark else ''}: {', then '.join(map(str, self.faults)) or 'no fault'}"
        )


SPARK_EVERY = 40
"""One in so many plans uses Spark, which takes 10 seconds to start."""

_ACTIONS = {
    Role.DRIVER: ((Action.KILL, 6), (Action.TERMINATE, 2), (Action.METASTORE, 2), (Action.PAUSE, 2)),
    Role.CONTROLLER: ((Action.KILL, 6), (Action.METASTORE, 2), (Action.PAUSE, 2)),
}
_OF_STORES = ((Action.STORE, 2), (Action.STALL, 2))
_SECOND_FAULT = 0.15


def choose(
    seed: int,
    steps: Mapping[str, Sequence[Step]],
    happens: Mapping[str, Action] = MappingProxyType({}),
    *,
    store: bool = False,
) -> Plan:
    """Return the plan of a seed, given the steps of each scenario as they were recorded.

    `happens` has what comes first in a scenario, where that is always the same. With `store`, the tables lie in a store
    that can break, too.

    Consecutive seeds walk through all steps of all scenarios, in a shuffled order: as many seeds as there are steps
    break each once. How, and whether a second fault follows, is chosen by the seed alone.
    """
    every = [(scenario, step) for scenario, found in sorted(steps.items()) for step in found]
    Random(0).shuffle(every)
    scenario, step = every[seed % len(every)]
    rng = Random(seed)
    first = _fault(rng, step, life=1, store=store, always=happens.get(scenario))
    faults = [first]
    if rng.random() < _SECOND_FAULT:
        second = rng.choice(steps[scenario])
        again = second.role is step.role and first.action in (Action.KILL, Action.TERMINATE, Action.PAUSE)
        faults.append(_fault(rng, second, life=2 if again else 1, always=Action.KILL))
    return Plan(scenario=scenario, faults=tuple(faults), spark=rng.randrange(SPARK_EVERY) == 0)


def _fault(rng: Random, step: Step, *, life: int, store: bool = False, always: Action | None = None) -> Fault:
    actions, weights = zip(*_ACTIONS[step.role], *(_OF_STORES if store else ()), strict=True)
    action = always or rng.choices(actions, weights)[0]
    wake = rng.choice(list(Wake)) if action is Action.PAUSE else None
    return Fault(step=step, moment=rng.choice(list(Moment)), action=action, life=life, wake=wake)
