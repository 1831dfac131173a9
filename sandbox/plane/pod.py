"""What makes a local process believe that it is a pod: the product's own command line, told where things lie here."""

import math

import kubernetes.config.incluster_config as incluster

from compaction_operator import cli
from compaction_operator.controller import app as controller
from compaction_operator.controller.kube import client as kube
from compaction_operator.driver import main as driver
from compaction_operator.driver.merge import placement
from sandbox.plane.processes import Launch

SPARK_VARIABLE = "PLANE_SPARK"
"""Environment variable: `no` lets a driver do all tasks itself, however large; `yes` lets Spark do even the small."""


def move_in(launch: Launch) -> None:
    """Point everything that a kubelet would mount, and the one fixed port, to this machine's places."""
    incluster.SERVICE_TOKEN_FILENAME = str(launch.secrets / "token")
    incluster.SERVICE_CERT_FILENAME = str(launch.secrets / "ca.crt")
    driver.TERMINATION_MESSAGE_PATH = str(launch.termination_message)  # type: ignore[attr-defined]
    controller.PROBES = launch.port  # type: ignore[attr-defined]
    kube.OWN_NAMESPACE = launch.secrets / "namespace"
    placement.LOCAL_SECONDS = -1.0 if launch.environment.get(SPARK_VARIABLE) == "yes" else math.inf


def run(launch: Launch) -> None:
    """Be the command line `compaction-operator` with the launch's arguments."""
    move_in(launch)
    cli.main()
