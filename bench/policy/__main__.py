"""A fleet through a policy, fixed thresholds and an oracle: `python -m bench.policy [--tables 2000] [--days 30]`.

The tables are simulated, the decisions are the operator's own (`controller/policies/decide.py` and all below it). Each
arm has the same fleet, slots and budget: a share of the bytes that fixed thresholds take without one. Compared is the
read cost of a query: the files that it opens, and the MiB of delete events that it merges. The targets are about one
budget (`--share`). A smaller fleet (`--curve` tables) shows others. The result is `bench/out/policy.json`; the exit
code is 1 when a target is missed.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench.policy import arms
from bench.policy.fleet import Shape, make_fleet
from bench.policy.loop import Limits
from bench.policy.oracle import bound, outcomes, reached
from bench.policy.report import (
    BLIND,
    FIXED,
    FREE,
    ORACLE,
    TARGETS,
    WEIGHTED,
    curve_table,
    drawn,
    judged,
    markdown,
    oracle_figures,
)

RESULT = Path(__file__).parents[1] / "out" / "policy.json"
SHARES = (0.1, 0.25, 0.5, 1.0)
"""Budgets of the curve."""


def main() -> int:
    """Play, leave the result, and print it; returns 1 when a target is missed."""
    options, start = _options(), time.monotonic()
    shape = Shape(options.tables, options.days, options.seed)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        (point,) = compared(pool, shape, shares=[options.share], names=(FIXED, WEIGHTED))
        small = Shape(options.curve, options.days, options.seed)
        curve = compared(pool, small, shares=SHARES, names=arms.ALL) if options.curve else []
    result = {**point, "curve": curve, "took_s": round(time.monotonic() - start)}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    if options.plot:
        options.plot.write_text(drawn(result["arms"], options.days))
    print(markdown(result["arms"]), curve_table(curve), sep="\n\n")
    missed = result["judged"]["missed"]
    print(f"bench-policy: {result['judged']}; {'ok' if not missed else 'MISSED'}")
    return 1 if missed else 0


def compared(pool: Executor, shape: Shape, *, shares: Sequence[float], names: Sequence[str]) -> list[dict[str, Any]]:
    """Play a fleet of that shape with each share of the budget, and return what is to be said of each.

    A budget is a share of what fixed thresholds take without one.
    """
    whole = pool.submit(arms.needed, shape).result() / shape.days
    limits = [Limits(slots=max(4, shape.tables // 5), bytes=share * whole) for share in shares]
    played = [{name: pool.submit(arms.played, name, shape, one) for name in names} for one in limits]
    oracles = pool.submit(foreseen, shape, [one.bytes for one in limits]).result()
    return [
        {"share": share, **_point(shape, one, {name: arm.result() for name, arm in found.items()} | known)}
        for share, one, found, known in zip(shares, limits, played, oracles, strict=True)
    ]


def foreseen(shape: Shape, budgets: Sequence[float]) -> list[dict[str, dict[str, Any]]]:
    """Return what the oracles reach with so many bytes a day."""
    fleet = make_fleet(shape)
    kept, free = outcomes(fleet, max_delay=arms.MAX_DELAY_TICKS), outcomes(fleet)
    return [
        {
            ORACLE: oracle_figures(fleet, *bound(kept, one)),
            FREE: oracle_figures(fleet, *reached(free, one * shape.days)),
            BLIND: oracle_figures(fleet, *reached(free, one * shape.days, blind=True)),
        }
        for one in budgets
    ]


def _point(shape: Shape, limits: Limits, found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    fleet = make_fleet(shape)
    return {
        "fleet": vars(shape) | {"writes": len(fleet.writes.tick), "partitions": len(fleet.partitions.table)},
        "budget_gib_a_day": round(limits.bytes / 1024**3, 1),
        "slots": limits.slots,
        "max_delay": arms.MAX_DELAY,
        "targets": TARGETS,
        "arms": found,
        "judged": judged(found),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Read cost of a fleet by how its compactions are chosen.")
    parser.add_argument("--tables", type=int, default=Shape().tables, help="(default: %(default)s)")
    parser.add_argument("--days", type=int, default=Shape().days, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=Shape().seed, help="(default: %(default)s)")
    parser.add_argument("--share", type=float, default=0.5, help="of what fixed thresholds take (default: %(default)s)")
    parser.add_argument("--curve", type=int, default=400, help="tables of the fleet at other budgets (0: none)")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the result goes (default: %(default)s)")
    parser.add_argument("--plot", type=Path, help="where a plot of it goes (SVG; default: none)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
