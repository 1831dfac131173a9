"""The long form, `make queue-test`: faults at each step, and then at random ones."""

import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import click

from tests.soak.queue.faults import at_random, each_once
from tests.soak.queue.fleet import POOL
from tests.soak.queue.runner import QueueRunner

SECONDS_PER_ENTRY = 10.0


@click.command()
@click.option("--entries", default=200, show_default=True, help="Entries to enqueue.")
@click.option("--seed", default=1, show_default=True, help="Chooses the faults.")
def main(entries: int, seed: int) -> None:
    """Enqueue entries, break each step once and then steps at random, and say what is wrong in the end."""
    once = each_once(driver_rounds=2)
    first = {(fault.step.role, fault.life) for fault in once}
    more = at_random(Random(seed), controllers=entries // 4, drivers=entries)
    faults = [*once, *(fault for fault in more if (fault.step.role, fault.life) not in first)]
    with tempfile.TemporaryDirectory() as folder, QueueRunner(Path(folder) / "run") as runner:
        problems, broken = runner.run(entries, faults, seconds=entries * SECONDS_PER_ENTRY)
        states = Counter(line.state.value for line in runner.admin.pool_compactions(POOL))
    said = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    click.echo(f"{entries} entries, seed {seed}: {len(broken)} faults, {len(problems)} problems; {said}")
    for problem in problems:
        click.echo(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
