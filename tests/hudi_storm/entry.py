"""A driver whose lease is short, so that nobody need wait a minute for that of a killed one."""

from sandbox.plane import pod
from sandbox.plane.processes import Launch

from compaction_operator.jobs import lease


def run(launch: Launch) -> None:
    """Be `pod.run` with a lease of some seconds."""
    lease.DURATION_SECONDS = 15
    lease.RENEWAL_SECONDS = 3
    pod.run(launch)
