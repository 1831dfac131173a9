"""A driver whose lease is short, so that a test need not wait a minute for that of a killed one."""

from sandbox.plane import pod
from sandbox.plane.processes import Launch

from compaction_operator.jobs import lease


def run(launch: Launch) -> None:
    """Be `pod.run` with a lease of some seconds."""
    lease.DURATION_SECONDS = 10
    lease.RENEWAL_SECONDS = 2
    pod.run(launch)
