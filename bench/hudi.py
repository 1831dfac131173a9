"""Write amplification of a Hudi table by how it is compacted: `python -m bench.hudi [--commits 64] [--hudi 1.2.0]`.

The same stream of upserts, into a table of its own for each arm: full compactions only, Hudi's own log compactions, and
the operator's of small blocks only (`maxLogFileSizeToMerge`), each after every fourth commit. The first two are Hudi's
inline services, switched on in the writer; the third is the flow of the driver. All three end with one full compaction.
Nothing is cleaned, so all that was written lies there in the end. The result is `bench/out/hudi.json`; the exit code is
1 when a target is missed, when the arms' rows differ, or when one did not compact each time.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sandbox.hudi.session import HudiSession

from bench.arms import Arm, Outcome, Stream, run_arm
from bench.plot import Line, plot
from bench.written import By
from compaction_operator.hudi import BUNDLES

RESULT = Path(__file__).parent / "out" / "hudi.json"
VERSIONS = tuple(BUNDLES)
TARGETS = {"times_less_than_full": 3.0, "less_than_own": 0.2}


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when it is not as it must be."""
    options = _options()
    stream = Stream(commits=options.commits)
    versions = VERSIONS if options.hudi == "both" else (options.hudi,)
    results = {version: measure(version, stream) for version in versions}
    ok = all(result["ok"] for result in results.values())
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    text = {"stream": asdict(stream), "targets": TARGETS, "machine": machine, "hudi": results, "ok": ok}
    options.out.write_text(json.dumps(text, indent=1) + "\n")
    if options.plot:
        options.plot.write_text(drawn(versions[-1], results[versions[-1]]))
    print(f"bench-hudi: {'; '.join(result['summary'] for result in results.values())}; {'ok' if ok else 'MISSED'}")
    return 0 if ok else 1


def measure(version: str, stream: Stream) -> dict[str, Any]:
    """Run the three arms with one version of Hudi and return what is to be said of them; prints a line for each."""
    outcomes: dict[Arm, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="bench-hudi-") as folder, HudiSession(version) as session:
        for arm in Arm:
            outcomes[arm] = run_arm(session.spark, arm, stream, Path(folder) / arm.name.lower())
            print(f"Hudi {version}, {arm}: {said(outcomes[arm])}", flush=True)
    return judged(version, outcomes, compacted=stream.compacted)


def said(outcome: Outcome) -> str:
    """Return an arm's outcome in one line."""
    parts = ", ".join(f"{by} {outcome.bytes(by) / 1e6:.2f} MB ({outcome.count(by)})" for by in By)
    return f"{parts}; write amplification {outcome.write_amplification:.2f}; {outcome.seconds:.0f} s"


def judged(version: str, outcomes: Mapping[Arm, Outcome], *, compacted: int) -> dict[str, Any]:
    """Return the figures of all arms and whether they meet the targets.

    They must hold the same rows, and each must have compacted so many times in its own way before the last compaction:
    one that leaves everything alone would write least of all.
    """
    full, own, small = (outcomes[arm].write_amplification for arm in Arm)
    times, less = full / small, 1 - small / own
    same = len({outcome.check for outcome in outcomes.values()}) == 1
    all_compacted = all(_did(arm, outcome) == (compacted, 1) for arm, outcome in outcomes.items())
    met = times >= TARGETS["times_less_than_full"] and less >= TARGETS["less_than_own"]
    return {
        "summary": f"Hudi {version}: {times:.1f} times less than {Arm.FULL}, {less:.0%} less than {Arm.OWN}",
        "ok": same and all_compacted and met,
        "same_rows": same,
        "all_compacted": all_compacted,
        "times_less_than_full": round(times, 2),
        "less_than_own": round(less, 3),
        "arms": {arm.value: _figures(outcome) for arm, outcome in outcomes.items()},
    }


def drawn(version: str, result: Mapping[str, Any]) -> str:
    """Return the plot of one version's arms: what was written by then, for each byte that all upserts brought."""
    lines = [Line(name, arm["cumulative"]) for name, arm in result["arms"].items()]
    title = f"Bytes written for each byte of the upserts, Hudi {version}"
    return plot(lines, title=title, across="upserts", up="write amplification")


def _did(arm: Arm, outcome: Outcome) -> tuple[int, int]:
    """Return how often an arm compacted in its own way, and fully in the end."""
    merged, full = outcome.count(By.LOG_COMPACTION), outcome.count(By.COMPACTION)
    return (full - 1, 1) if arm is Arm.FULL else (merged, full)


def _figures(outcome: Outcome) -> dict[str, Any]:
    return {
        "write_amplification": round(outcome.write_amplification, 2),
        "bytes": {by.value: outcome.bytes(by) for by in By},
        "commits": {by.value: outcome.count(by) for by in By},
        "rows": outcome.check[0],
        "seconds": round(outcome.seconds),
        "cumulative": [round(value, 2) for value in outcome.cumulative()],
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write amplification of Hudi tables by how they are compacted.")
    parser.add_argument("--commits", type=int, default=Stream().commits, help="upserts (default: %(default)s)")
    parser.add_argument("--hudi", choices=[*VERSIONS, "both"], default="both", help="default: one after the other")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the result goes (default: %(default)s)")
    parser.add_argument("--plot", type=Path, help="where a plot of it goes (SVG; default: none)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
