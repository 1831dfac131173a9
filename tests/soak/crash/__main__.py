"""The command: `python -m tests.soak.crash --runs 200 --seed 1 [--hive both]`, which `make crash-test` calls.

It ends with `N passed, N failed`. Runs of these seeds that an earlier invocation did are counted, not repeated.
"""

import argparse
import shutil
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from sandbox.harness.places import StorageKind
from sandbox.metastore.server import ON_S3, Hive
from sandbox.plane.store import STORES

from tests.integration.oracle.hive import HiveOracle
from tests.soak.crash.plan import Plan, choose
from tests.soak.crash.record import ROOT, Record, Recording, Result
from tests.soak.crash.runner import RUN_SECONDS, Outcome, PlanRunner
from tests.soak.crash.scenarios import SCENARIOS

RESULTS = ROOT / "build" / "crash-test"
GENERATIONS: tuple[Hive, ...] = get_args(Hive)


class Campaign:
    """The runs on one generation and storage. A plane on which a run failed is given up, with all that lies there."""

    def __init__(self, hive: Hive, record: Record, *, storage: StorageKind, seconds: float) -> None:
        self.record = record
        self._hive: Hive = hive
        self._storage: StorageKind = storage
        self._stack = ExitStack()
        self._oracle = HiveOracle(int(hive[0]))
        self._runner: PlanRunner | None = None
        self._seconds = seconds

    def __enter__(self) -> "Campaign":
        self._stack.enter_context(self._oracle)
        return self

    def __exit__(self, *_: object) -> None:
        self._give_up()
        self._stack.close()

    def recordings(self) -> dict[str, Recording]:
        """Return the scenarios' steps and ends, run once each where they are not known; exits when one fails."""
        known = self.record.recordings()
        for name, scenario in SCENARIOS.items():
            if scenario.is_for(self._hive, self._storage) and name not in known:
                known[name] = self._recorded(name)
                self.record.keep_recordings(known)
        return known

    def run(self, plan: Plan, recordings: dict[str, Recording]) -> Outcome:
        """Run a plan; what keeps a run from being made at all is a problem of it, too."""
        ideal = recordings[plan.scenario].ideal
        try:
            outcome = self._running().run(plan, ideal=ideal)
        except Exception:  # whatever it is: the next run has a plane of its own
            broken = (f"the run broke down: {traceback.format_exc()}",)
            outcome = Outcome(plan=plan, problems=broken, broken=(), steps=(), attempts=0, seconds=0.0, ideal=ideal)
        if outcome.problems:
            self._give_up()
        return outcome

    def _recorded(self, scenario: str) -> Recording:
        outcome = self._running().run(Plan(scenario=scenario), ideal=None)
        print(f"{self._hive}: {scenario}: {len(outcome.steps)} steps", flush=True)
        if outcome.problems:
            sys.exit(f"{scenario} fails when nothing breaks: {'; '.join(outcome.problems)}")
        return Recording(steps=outcome.steps, ideal=outcome.ideal)

    def _running(self) -> PlanRunner:
        if self._runner is None:
            folder = self._folder
            shutil.rmtree(folder, ignore_errors=True)
            self._runner = PlanRunner(
                folder, hive=self._hive, oracle=self._oracle, storage=self._storage, seconds=self._seconds
            )
            self._runner.__enter__()
        return self._runner

    @property
    def _folder(self) -> Path:
        return self.record.failed.with_name(f"{self._hive}-{self._storage}-plane")

    def keep(self, seed: int) -> Path:
        """Put the folder of the plane that was given up where it stays, and return that place."""
        kept = self.record.failed / str(seed)
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(exist_ok=True)
        shutil.move(self._folder, kept)
        return kept

    def _give_up(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.__exit__(None, None, None)


def main() -> int:
    """Do the runs, print the figures, return the exit code."""
    options = _options()
    results = [
        result
        for hive in GENERATIONS
        if options.hive in (hive, "both")
        for result in _runs(hive, Record(options.folder, hive=hive, storage=options.storage), options)
    ]
    failed = sum(not result.passed for result in results)
    missed = sum(not result.reached for result in results)
    if missed:
        print(f"in {missed} of them a fault did not come about, as its step did not come")
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _runs(hive: Hive, record: Record, options: argparse.Namespace) -> Iterator[Result]:
    done = {} if options.plan or options.again else record.results()
    seeds = range(options.seed, options.seed + options.runs)
    yield from (done[seed] for seed in seeds if seed in done)
    left = [seed for seed in seeds if seed not in done]
    if len(left) < len(seeds):
        print(f"{hive}: {len(seeds) - len(left)} of {len(seeds)} runs are done already", flush=True)
    if left:
        with Campaign(hive, record, storage=options.storage, seconds=options.seconds) as campaign:
            yield from _remaining(hive, campaign, left, options)


def _remaining(hive: Hive, campaign: Campaign, seeds: Sequence[int], options: argparse.Namespace) -> Iterator[Result]:
    recordings = campaign.recordings()
    steps = {name: recording.steps for name, recording in recordings.items()}
    happens = {name: scenario.happens for name, scenario in SCENARIOS.items() if scenario.happens}
    deadline = time.monotonic() + options.minutes * 60 if options.minutes else None
    for seed in seeds:
        if deadline and time.monotonic() > deadline:
            print(f"{hive}: {options.minutes:g} minutes are over", flush=True)
            return
        plan = (
            Plan.model_validate_json(options.plan)
            if options.plan
            else choose(seed, steps, happens, store=options.storage in STORES)
        )
        outcome = campaign.run(plan, recordings)
        result = _result(seed, outcome)
        campaign.record.add(result)
        _tell(hive, options.storage, result)
        if outcome.problems:
            print(f"  all of it lies in {campaign.keep(seed)}", flush=True)
        yield result


def _result(seed: int, outcome: Outcome) -> Result:
    return Result(
        seed=seed,
        plan=outcome.plan,
        passed=not outcome.problems,
        reached=len(outcome.broken) == len(outcome.plan.faults),
        attempts=outcome.attempts,
        seconds=round(outcome.seconds, 1),
        problems=outcome.problems,
    )


def _tell(hive: Hive, storage: StorageKind, result: Result) -> None:
    how = "passed" if result.passed else "FAILED"
    missed = "" if result.reached else ", not reached"
    times = f"{result.seconds:.0f} s, attempts: {result.attempts}"
    print(f"{hive} seed {result.seed}: {how}: {result.plan} ({times}{missed})", flush=True)
    for problem in result.problems:
        print(f"  {problem}")
    if not result.passed:
        command = f"python -m tests.soak.crash --hive {hive} --storage {storage} --runs 1 --seed {result.seed}"
        print(f"  again: {command} --plan '{result.plan.model_dump_json(by_alias=True, exclude_none=True)}'")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.crash", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--hive", choices=[*GENERATIONS, "both"], default="3.1.3")
    parser.add_argument("--storage", choices=get_args(StorageKind), default="file", help="where the tables lie")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where results and failures are kept")
    parser.add_argument("--minutes", type=float, help="begin no further run after so many; a later call goes on")
    parser.add_argument(
        "--seconds", type=float, default=RUN_SECONDS, help="what a run may take; more on a busy machine"
    )
    parser.add_argument("--plan", help="this plan, as a failure prints it, instead of the seed's")
    parser.add_argument("--again", action="store_true", help="repeat runs that are done")
    options = parser.parse_args()
    if options.storage == "s3" and options.hive not in ON_S3:
        parser.error(f"on S3 only Hive {', '.join(ON_S3)}: the operator refuses 3.1.3 there (--hive, HIVE=)")
    return options


if __name__ == "__main__":
    sys.exit(main())
