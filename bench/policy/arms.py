"""The arms by name, each played alone: they run side by side in processes of their own."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.policy.fixed import FixedThresholds
from bench.policy.fleet import TICKS_A_DAY, Fleet, Floats, Shape, make_fleet
from bench.policy.loop import Limits, play
from bench.policy.ours import OurPolicy
from bench.policy.report import FIXED, GAIN, THRESHOLDS, WEIGHTED, figures, waits
from bench.policy.state import State

ALL = (FIXED, THRESHOLDS, GAIN, WEIGHTED)
MAX_DELAY = "168h"
MAX_DELAY_TICKS = 7 * TICKS_A_DAY
SPEC: dict[str, Any] = {"maxDelay": MAX_DELAY, "minInterval": "0s"}
"""What the policies have in their spec beside slots and budget. The oracles have no least interval either."""
UNLIMITED = 10.0**18
COARSE = 4.0
"""Owners know how often a table is read to a power of this."""


def needed(shape: Shape) -> float:
    """Return the bytes that fixed thresholds take without a budget, in all."""
    fleet = make_fleet(shape)
    state = State(fleet)
    return play(fleet, state, FixedThresholds(fleet, state, Limits(shape.tables, UNLIMITED))).bytes


def played(name: str, shape: Shape, limits: Limits) -> dict[str, Any]:
    """Return what an arm came to."""
    fleet = make_fleet(shape)
    state = State(fleet)
    if name == FIXED:
        return figures(fleet, play(fleet, state, FixedThresholds(fleet, state, limits)), limits)
    policy = POLICIES[name](fleet, state, limits)
    found = play(fleet, state, policy)
    return {**figures(fleet, found, limits), **waits(policy.audit, found)}


def _by_thresholds(fleet: Fleet, state: State, limits: Limits) -> OurPolicy:
    return OurPolicy(fleet, state, limits, **SPEC)


def _by_gain(fleet: Fleet, state: State, limits: Limits) -> OurPolicy:
    return OurPolicy(fleet, state, limits, **SPEC, strategy="Gain")


def _weighted(fleet: Fleet, state: State, limits: Limits) -> OurPolicy:
    return OurPolicy(fleet, state, limits, weights=weights(fleet), **SPEC, strategy="Gain")


def weights(fleet: Fleet) -> Floats:
    """Return the weights that owners give their tables: how often each is read, roughly."""
    exponents = np.log(fleet.tables.queries) / np.log(COARSE)
    found: Floats = COARSE ** np.round(exponents)
    return found


POLICIES: dict[str, Callable[[Fleet, State, Limits], OurPolicy]] = {
    THRESHOLDS: _by_thresholds,
    GAIN: _by_gain,
    WEIGHTED: _weighted,
}
