"""What a driver's process is on this machine: the product's command line `compaction-operator job`.

It has what a kubelet would mount in places of this machine. NB: a benchmark measures it, so import no more here.
"""

import os
import sys

from compaction_operator import cli
from compaction_operator.driver import main as driver
from compaction_operator.driver.kube import KubernetesJournals
from compaction_operator.driver.merge import placement

SECRETS_VARIABLE = "LONE_DRIVER_SECRETS"
"""Environment variable: the folder with `token` and `ca.crt`."""

MESSAGE_VARIABLE = "LONE_DRIVER_MESSAGE"
"""Environment variable: the file for the termination message."""

SPARK_VARIABLE = "LONE_DRIVER_SPARK"
"""Environment variable: `yes` lets Spark do even the smallest work."""


def main() -> None:
    """Be the driver."""
    driver.KubernetesJournals = _journals  # type: ignore[attr-defined, assignment]
    driver.TERMINATION_MESSAGE_PATH = os.environ[MESSAGE_VARIABLE]  # type: ignore[attr-defined]
    if os.environ.get(SPARK_VARIABLE) == "yes":
        placement.LOCAL_SECONDS = -1.0
    sys.argv = ["compaction-operator", "job"]
    cli.main()


def _journals() -> KubernetesJournals:
    """Use the API server for the first time. NB: the driver imports its client no sooner."""
    import kubernetes.config.incluster_config as incluster  # noqa: PLC0415 - see above

    incluster.SERVICE_TOKEN_FILENAME = os.environ[SECRETS_VARIABLE] + "/token"
    incluster.SERVICE_CERT_FILENAME = os.environ[SECRETS_VARIABLE] + "/ca.crt"
    return KubernetesJournals()


if __name__ == "__main__":
    main()
