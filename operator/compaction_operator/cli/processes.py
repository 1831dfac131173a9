"""The verbs that pods and the image's build start: `run` (the controller), `job` (a driver) and `calibrate`."""

import logging
import os
import sys

import click

from compaction_operator import logs
from compaction_operator.api.request import REQUEST_VARIABLE


@click.command()
def calibrate() -> None:
    """Print how many times the reference machine's CPU time a small merge takes here. The image's build stores it."""
    from compaction_operator.driver.merge.calibration import measured_factor  # noqa: PLC0415 - numpy

    click.echo(f"{measured_factor():.3f}")


@click.command()
@click.option("--config", required=True, type=click.Path(dir_okay=False), help="The operator's configuration (YAML).")
@click.option("--verbose", is_flag=True, help="Also log debug messages.")
def run(config: str, verbose: bool) -> None:
    """Run the controller."""
    from compaction_operator.controller.app import run as run_controller  # noqa: PLC0415 - kopf is the controller's

    _log(logging.DEBUG if verbose else logging.INFO)
    run_controller(config)


@click.command()
def job() -> None:
    """Run one compaction in a driver pod. The controller starts this command."""
    if lacking := [name for name in (REQUEST_VARIABLE, "POD_NAME", "POD_UID") if name not in os.environ]:
        raise click.UsageError(f"the controller starts `job` in a pod; the environment lacks {', '.join(lacking)}")
    from compaction_operator.driver.main import main as run_driver  # noqa: PLC0415 - Spark and Kubernetes

    _log(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    code = run_driver()
    logging.shutdown()
    sys.stdout.flush()
    # NB: a call to a store that was given up may return while Python shuts down, and abort the process. The driver has
    # said how it ended, so nothing may change its exit code.
    os._exit(code)


def _log(level: int) -> None:
    logging.basicConfig(level=level, format=logs.TEXT, stream=sys.stderr)
