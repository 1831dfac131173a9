"""A fleet through a policy, fixed thresholds and an oracle: `python -m bench.policy [--tables 2000] [--days 30]`.

The tables are simulated, the decisions are the operator's own (`controller/policies/decide.py` and all below it). Each
arm has the same fleet, slots and budget: half (`--share`) of the bytes that fixed thresholds take without one. Compared
is the read cost of a query: the files that it opens, and the MiB of delete events that it merges. The result is
`bench/out/policy.json`; the exit code is 1 when a target is missed.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.policy.fixed import FixedThresholds
from bench.policy.fleet import Fleet, Shape, make_fleet
from bench.policy.loop import Arm, Limits, Played, play
from bench.policy.oracle import outcomes, reached
from bench.policy.ours import OurPolicy
from bench.policy.report import BLIND, FIXED, ORACLE, OURS, TARGETS, drawn, figures, judged, markdown, oracle_figures
from bench.policy.state import State

RESULT = Path(__file__).parents[1] / "out" / "policy.json"
MAX_DELAY = "168h"
UNLIMITED = 10.0**18


def main() -> int:
    """Play, leave the result, and print it; returns 1 when a target is missed."""
    options, start = _options(), time.process_time()
    result = compared(Shape(options.tables, options.days, options.seed), share=options.share)
    result["cpu_s"] = round(time.process_time() - start)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    if options.plot:
        options.plot.write_text(drawn(result["arms"], options.days))
    print(markdown(result["arms"]))
    missed = result["judged"]["missed"]
    print(f"bench-policy: {result['judged']}; {'ok' if not missed else 'MISSED'}")
    return 1 if missed else 0


def compared(shape: Shape, *, share: float) -> dict[str, Any]:
    """Play a fleet of that shape through all arms, and return what is to be said of them.

    The budget is a share of what fixed thresholds take without one.
    """
    fleet = make_fleet(shape)
    unlimited = _played(fleet, lambda state: FixedThresholds(fleet, state, Limits(shape.tables, UNLIMITED)))
    limits = Limits(slots=max(4, shape.tables // 25), bytes=share * unlimited.bytes / shape.days)
    fixed = _played(fleet, lambda state: FixedThresholds(fleet, state, limits))
    ours, policy = _policy(fleet, limits)
    known = outcomes(fleet)
    arms = {FIXED: figures(fleet, fixed, limits), OURS: figures(fleet, ours, limits)}
    for name, blind in ((ORACLE, False), (BLIND, True)):
        arms[name] = oracle_figures(fleet, *reached(known, limits.bytes * shape.days, blind=blind))
    waits = {"max_delay": MAX_DELAY, "longest_days": round(policy.audit.longest, 2)}
    forced = round(policy.audit.forced / ours.bytes, 3)
    return {
        "fleet": vars(shape) | {"writes": len(fleet.writes.tick), "partitions": len(fleet.partitions.table)},
        "share": share,
        "budget_gib_a_day": round(limits.bytes / 1024**3, 1),
        "targets": TARGETS,
        "arms": arms,
        "waits": waits | {"forced_share_of_bytes": forced},
        "judged": judged(arms, policy.audit),
    }


def _played(fleet: Fleet, make: Callable[[State], Arm]) -> Played:
    state = State(fleet)
    return play(fleet, state, make(state))


def _policy(fleet: Fleet, limits: Limits) -> tuple[Played, OurPolicy]:
    state = State(fleet)
    policy = OurPolicy(fleet, state, limits, maxDelay=MAX_DELAY)
    return play(fleet, state, policy), policy


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Read cost of a fleet by how its compactions are chosen.")
    parser.add_argument("--tables", type=int, default=Shape().tables, help="(default: %(default)s)")
    parser.add_argument("--days", type=int, default=Shape().days, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=Shape().seed, help="(default: %(default)s)")
    parser.add_argument("--share", type=float, default=0.5, help="of what fixed thresholds take (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the result goes (default: %(default)s)")
    parser.add_argument("--plot", type=Path, help="where a plot of it goes (SVG; default: none)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
