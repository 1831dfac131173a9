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
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench.policy import arms
from bench.policy.fleet import Shape, make_fleet
from bench.policy.loop import Limits
from bench.policy.oracle import Outcomes, outcomes, reached
from bench.policy.report import (
    BLIND,
    FIXED,
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
    known = pool.submit(outcomes, make_fleet(shape))
    whole = pool.submit(arms.needed, shape).result() / shape.days
    limits = [Limits(slots=max(4, shape.tables // 5), bytes=share * whole) for share in shares]
    played = [{name: pool.submit(arms.played, name, shape, one) for name in names} for one in limits]
    return [
        {"share": share, **_point(shape, one, found, known.result())}
        for share, one, found in zip(shares, limits, played, strict=True)
    ]


def _point(
    shape: Shape, limits: Limits, played: Mapping[str, Future[dict[str, Any]]], known: Outcomes
) -> dict[str, Any]:
    fleet = make_fleet(shape)
    found = {name: one.result() for name, one in played.items()}
    for name, blind in ((ORACLE, False), (BLIND, True)):
        found[name] = oracle_figures(fleet, *reached(known, limits.bytes * shape.days, blind=blind))
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
