"""The steps of an entry's way through controller and drivers, and faults at them."""

from collections.abc import Iterable, Iterator
from random import Random

from tests.soak.crash.plan import Action, Fault, Moment, Role, Step

CONTROLLER_STEPS = (
    "metastore find_next_compact2",
    "POST tablecompactions",
    "metastore set_hadoop_jobid",
    "POST jobs",
    "metastore mark_refused",
    "metastore mark_cleaned",
)
"""From the taking of an entry to its last mark. An entry in between is found by its worker and its job."""
DRIVER_STEPS = (
    "metastore open_txns",
    "metastore update_compactor_state",
    "POST compactioncleanups",
    "metastore commit_txn",
    "metastore mark_compacted",
)
"""What a driver does for its entry."""
Place = tuple[Role, str, Moment]


def each_once(*, driver_rounds: int) -> list[Fault]:
    """Return kills before and after each step, one in each life of the controller and of the first drivers.

    There are several rounds of drivers, as one whose table has nothing to compact does not come to these steps.
    """
    controller = [(Role.CONTROLLER, label, moment) for label in CONTROLLER_STEPS for moment in Moment]
    driver = [(Role.DRIVER, label, moment) for label in DRIVER_STEPS for moment in Moment]
    return [*_in_turn(controller), *_in_turn(driver * driver_rounds)]


def _in_turn(places: Iterable[Place]) -> Iterator[Fault]:
    for life, (role, label, moment) in enumerate(places, 1):
        yield Fault(step=Step(role=role, label=label, number=1), moment=moment, action=Action.KILL, life=life)


def at_random(rng: Random, *, controllers: int, drivers: int) -> list[Fault]:
    """Return a fault for each of so many lives of the controller, and for half of so many drivers."""
    lives = [(Role.CONTROLLER, life) for life in range(1, controllers + 1)]
    lives += [(Role.DRIVER, life) for life in range(1, drivers + 1) if rng.random() < 0.5]
    return [_chosen(rng, role, life) for role, life in lives]


def _chosen(rng: Random, role: Role, life: int) -> Fault:
    label = rng.choice(CONTROLLER_STEPS if role is Role.CONTROLLER else DRIVER_STEPS)
    number = rng.randint(1, 5) if role is Role.CONTROLLER else 1
    (action,) = rng.choices([Action.KILL, Action.METASTORE], [9, 1])
    step = Step(role=role, label=label, number=number)
    return Fault(step=step, moment=rng.choice(list(Moment)), action=action, life=life)


def place_of(fault: Fault) -> Place:
    """Return where a fault happens."""
    return fault.step.role, fault.step.label, fault.moment
