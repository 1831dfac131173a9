"""A driver with a short lease, so that no run waits a minute for the lease of a killed driver."""

from sandbox.plane import pod
from sandbox.plane.processes import Launch

from compaction_operator.driver.hudi import lease


def run(launch: Launch) -> None:
    """Be `pod.run` with a lease of some seconds."""
    # NB: who waits for a lease comes again after 1 + 10 seconds, then after 20 more.
    lease.DURATION_SECONDS = 10
    lease.RENEWAL_SECONDS = 2
    # All run on one machine, by one clock.
    lease.CLOCK_TOLERANCE = 0.5
    pod.run(launch)
