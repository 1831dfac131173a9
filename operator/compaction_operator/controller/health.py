"""What the kubelet's probes are answered: is the loop alive, is the cache loaded, what does each warehouse's pool do?

A restart helps a loop that is stuck, or calls of the API server that should have timed out long ago. It does not help a
metastore or a volume that hangs, and would take the other warehouses down with it: that is only said.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from compaction_operator.controller.kube.workers import Load

LOOP_SECONDS = 90.0
"""Three times the longest pause of the loop."""
KUBE_SECONDS = 900.0
"""A call of the API server that runs for longer is stuck: each page of the longest list has a time-out."""
WAREHOUSE_SECONDS = 300.0
"""A pool of a warehouse is stuck if none of its threads is free, and one has been at its call for longer."""
SILENCE_SECONDS = 30.0
"""A standby that has had no answer about the lease for longer could not take over."""


class Verdict(NamedTuple):
    """Whether a probe succeeds, and the lines that say why."""

    good: bool
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Vitals:
    """What is known of the process at one moment; ages are in seconds.

    `step` is the age of the loop's last step, None before the first one. `heard` is the age of the API server's last
    answer about the lease, None without one. `pools` maps each warehouse and purpose to what the pool does. `hidden`
    are the namespaces that cannot be watched, each with the reason.
    """

    leads: bool
    loaded: bool
    step: float | None
    heard: float | None
    kube: Load
    pools: Mapping[tuple[str, str], Load] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)


def liveness(now: Vitals) -> Verdict:
    """Say whether the process is alive: a fresh one would not do better."""
    loop, stuck = _loop(now), now.step is not None and now.step > LOOP_SECONDS
    silent = now.kube.oldest > KUBE_SECONDS
    kube = f"API server: {'stuck: ' if silent else ''}{_say(now.kube)}"
    return Verdict(not stuck and not silent, (_role(now), loop, kube, *_warehouses(now)))


def readiness(now: Vitals) -> Verdict:
    """Say whether the leader has loaded its cache, or whether a standby could take over."""
    if now.leads:
        hidden = (f"namespace {name}: not served: {why}" for name, why in now.hidden.items())
        return Verdict(now.loaded, (_role(now), f"cache: {'loaded' if now.loaded else 'not loaded yet'}", *hidden))
    if now.heard is None:
        return Verdict(False, (_role(now), "lease: not read yet"))
    return Verdict(now.heard <= SILENCE_SECONDS, (_role(now), f"lease: read {now.heard:.0f} s ago"))


def _role(now: Vitals) -> str:
    return f"role: {'leader' if now.leads else 'standby'}"


def _loop(now: Vitals) -> str:
    if now.step is None:
        return "loop: not started"
    return f"loop: {'stuck: ' if now.step > LOOP_SECONDS else ''}{now.step:.0f} s since its last step"


def _warehouses(now: Vitals) -> Iterable[str]:
    """Yield a line for each warehouse: idle, at work, or which of its pools is stuck."""
    for name in sorted({warehouse for warehouse, _ in now.pools}):
        loads = {purpose: load for (warehouse, purpose), load in now.pools.items() if warehouse == name and load.busy}
        said = (f"{purpose} {'stuck: ' if is_stuck(load) else ''}{_say(load)}" for purpose, load in loads.items())
        yield f"warehouse {name}: {', '.join(said) or 'idle'}"


def is_stuck(load: Load) -> bool:
    """Whether no thread of a warehouse's pool is free, and none was for a long time."""
    return load.busy >= load.size and load.oldest > WAREHOUSE_SECONDS


def _say(load: Load) -> str:
    return (
        f"{load.busy} of {load.size} threads at work, the oldest call for {load.oldest:.0f} s" if load.busy else "idle"
    )
