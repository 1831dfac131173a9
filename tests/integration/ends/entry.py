"""What drivers are in these tests: the product, which begins once a test lets it."""

import time

from sandbox.plane import pod
from sandbox.plane.processes import Launch

HOLD = "hold"
"""A file in the drivers' folder: as long as it is there, no driver begins."""


def run(launch: Launch) -> None:
    """Be the command line."""
    while "job" in launch.arguments and (launch.log.parent.parent / HOLD).exists():
        time.sleep(0.1)
    pod.run(launch)
