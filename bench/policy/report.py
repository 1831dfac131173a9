"""What is to be said of the arms: their read cost for a query, the targets, and the plot."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.plot import Line, plot
from bench.policy.fleet import TICKS_A_DAY, Fleet
from bench.policy.loop import Limits, Played
from bench.policy.ours import Audit

FIXED, THRESHOLDS = "fixed thresholds", "policy by thresholds"
GAIN, WEIGHTED = "policy by gain", "policy by gain, with weights"
ORACLE, FREE, BLIND = "oracle", "oracle without limits in time", "the same without popularity"
TARGETS = {"times_better_than_fixed": 2.0, "times_the_oracle": 1.2, "most_of_budget": 1.0, "kept_back_too_long": 0}
GIB = 1024**3


def figures(fleet: Fleet, played: Played, limits: Limits) -> dict[str, Any]:
    """Return what an arm came to: read cost of a query on average and by day, and what it used."""
    asked = fleet.asked * TICKS_A_DAY
    return {
        "read_cost": round(float(played.cost.sum() / asked.sum()), 2),
        "by_day": [round(float(one), 1) for one in played.cost / asked],
        "compactions": len(played.runs),
        "failed": sum(one.fails for one in played.runs),
        "gib_a_day": round(played.bytes / GIB / fleet.shape.days, 1),
        "most_of_budget": round(played.most / limits.bytes, 3),
        "most_at_once": played.most_at_once,
    }


def waits(audit: Audit, played: Played) -> dict[str, Any]:
    """Return for how long tables waited, and which share of the bytes started because of it."""
    return {
        "longest_wait_days": round(audit.longest, 2),
        "kept_back_too_long": audit.late,
        "pressed_share_of_bytes": round(audit.pressed / played.bytes, 3),
        "forced_share_of_bytes": round(audit.forced / played.bytes, 3),
    }


def oracle_figures(fleet: Fleet, cost: float, size: float) -> dict[str, Any]:
    """Return what an oracle came to, on average over all days."""
    average = cost / fleet.asked.sum() / TICKS_A_DAY
    return {"read_cost": round(float(average), 2), "gib_a_day": round(size / GIB / fleet.shape.days, 1)}


def judged(arms: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures that have targets, and which of these are missed."""
    ours = arms[WEIGHTED]["read_cost"]
    found = {
        "times_better_than_fixed": round(arms[FIXED]["read_cost"] / ours, 2),
        "times_the_oracle": round(ours / arms[ORACLE]["read_cost"], 2),
        "most_of_budget": arms[WEIGHTED]["most_of_budget"],
        "kept_back_too_long": arms[WEIGHTED]["kept_back_too_long"],
    }
    missed = [name for name, value in found.items() if not _meets(name, value)]
    bound = round(arms[FIXED]["read_cost"] / arms[ORACLE]["read_cost"], 2)
    return {**found, "oracle_times_better_than_fixed": bound, "missed": missed}


def _meets(name: str, value: float) -> bool:
    return value >= TARGETS[name] if name == "times_better_than_fixed" else value <= TARGETS[name]


def markdown(arms: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the arms as a table."""
    head = ["", "read cost of a query", "GiB a day", "compactions", "at most of the budget", "longest wait (days)"]
    columns = ("read_cost", "gib_a_day", "compactions", "most_of_budget", "longest_wait_days")
    return table(head, [[name, *(found.get(column, "") for column in columns)] for name, found in arms.items()])


def curve_table(points: Sequence[Mapping[str, Any]]) -> str:
    """Return the read costs at each budget as a table."""
    names = (FIXED, THRESHOLDS, GAIN, WEIGHTED, ORACLE, FREE, BLIND)
    head = ["budget", *names, "fixed / policy", "policy / oracle"]
    rows = []
    for one in points:
        costs = [one["arms"][name]["read_cost"] for name in names]
        ratios = [one["judged"][name] for name in ("times_better_than_fixed", "times_the_oracle")]
        rows.append([f"{one['share']:.0%}", *costs, *ratios])
    return table(head, rows)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *(map(str, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def drawn(arms: Mapping[str, Mapping[str, Any]], days: int) -> str:
    """Return the plot of the read cost day by day; an oracle has its average."""
    lines = [Line(name, arms[name]["by_day"]) for name in (FIXED, WEIGHTED)]
    lines += [Line(name, [arms[name]["read_cost"]] * days) for name in (ORACLE, FREE)]
    return plot(lines, title="What a query opens, at the same budget", across="days", up="files + MiB of delete events")
