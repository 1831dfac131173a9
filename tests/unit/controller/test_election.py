"""Who leads: the decisions of several processes about one Lease, each with its own clock."""

import threading
from dataclasses import dataclass, field
from typing import NoReturn

import pytest

from compaction_operator.controller import election as module
from compaction_operator.controller.election import RENEW_SECONDS, Election, Sight
from compaction_operator.controller.kube.client import ConflictError, GoneError, KubeError, Raw, ResourceExistsError
from compaction_operator.controller.kube.lease import SECONDS, Lease


class EndedError(BaseException):
    """The process has ended."""


def end(why: str) -> NoReturn:
    raise EndedError(why)


@dataclass
class FakeLease:
    """One Lease on an API server that may be away, or may take a write and not say so. It fences as the real one."""

    lease: Lease | None = None
    away: bool = False
    deaf: bool = False
    versions: int = 0

    def read(self) -> Lease | None:
        self._answer()
        return self.lease

    def create(self, spec: Raw) -> Lease:
        self._answer()
        if self.lease is not None:
            raise ResourceExistsError("409 AlreadyExists")
        return self._write({}, spec)

    def replace(self, lease: Lease, spec: Raw) -> Lease:
        self._answer()
        if self.lease is None:
            raise GoneError("404 Not Found")
        if lease.version != self.lease.version:
            raise ConflictError("409 Conflict")
        return self._write(lease.raw["spec"], spec)

    def _answer(self) -> None:
        if self.away:
            raise KubeError("API server not reachable")

    def _write(self, old: Raw, spec: Raw) -> Lease:
        self.versions += 1
        self.lease = Lease({"metadata": {"resourceVersion": str(self.versions)}, "spec": {**old, **spec}})
        if self.deaf:
            raise KubeError("the answer was lost")
        return self.lease


@dataclass
class Process:
    """A process with a clock of its own, which begins anywhere."""

    server: FakeLease
    name: str
    now: float = 0.0
    election: Election = field(init=False)

    def __post_init__(self) -> None:
        self.election = Election(self.server, identity=self.name, clock=lambda: self.now, end=end)


@pytest.fixture
def server() -> FakeLease:
    return FakeLease()


@pytest.fixture
def leader(server: FakeLease) -> Process:
    found = Process(server, "a", now=1000.0)
    assert found.election.stand()
    return found


@pytest.fixture
def standby(server: FakeLease, leader: Process) -> Process:
    found = Process(server, "b", now=5.0)
    assert not found.election.stand()
    return found


def test_the_deadline_of_a_leader_is_before_the_end_of_its_lease() -> None:
    """What it has begun by then has the time between the two to come to its end."""
    assert SECONDS - RENEW_SECONDS >= 5.0


def test_the_first_one_leads_and_the_lease_says_so(server: FakeLease, leader: Process) -> None:
    assert leader.election.leads
    leader.election.require()
    assert server.lease is not None
    assert (server.lease.holder, server.lease.seconds, server.lease.transitions) == ("a", 15.0, 0)
    assert server.lease.raw["spec"]["renewTime"].endswith("Z")


def test_who_stands_by_may_not_act(standby: Process) -> None:
    """Not even by mistake: no part of the process has a permit."""
    with pytest.raises(EndedError, match="no lease was taken"):
        standby.election.require()


@pytest.mark.parametrize("silence", [14.9, 15.0])
def test_a_standby_waits_for_a_whole_lease_by_its_own_clock(standby: Process, silence: float) -> None:
    """From the moment in which it saw the last change: what the holder wrote as a time does not count."""
    standby.now += silence
    assert standby.election.stand() == (silence >= SECONDS)


def test_each_renewal_keeps_a_standby_waiting(leader: Process, standby: Process) -> None:
    for _ in range(10):
        leader.now += 8.0
        leader.election.renew()
        leader.election.require()
        standby.now += 14.0
        assert not standby.election.stand()


def test_a_leader_that_cannot_renew_is_gone_before_a_standby_leads(
    server: FakeLease, leader: Process, standby: Process
) -> None:
    """By its own clock, from the beginning of its last renewal: an answer may take its time."""
    leader.now, standby.now = leader.now + RENEW_SECONDS - 0.1, standby.now + RENEW_SECONDS - 0.1
    server.away = True
    leader.election.renew()
    leader.election.require()
    leader.now, standby.now, server.away = leader.now + 0.1, standby.now + 0.1, False
    with pytest.raises(EndedError, match="the lease was not renewed in time"):
        leader.election.require()
    assert not standby.election.stand()


def test_a_leader_that_was_stopped_ends_at_its_first_step(leader: Process, standby: Process) -> None:
    """Another one leads meanwhile. The renewal finds that out, too, whichever thread goes on first."""
    standby.now += SECONDS
    assert standby.election.stand()
    leader.now += 3600
    with pytest.raises(EndedError, match="not renewed in time, by 3590"):
        leader.election.require()
    with pytest.raises(EndedError, match="the lease is lost: b holds it"):
        leader.election.renew()


def test_a_renewal_that_takes_long_counts_from_its_beginning(server: FakeLease, leader: Process) -> None:
    class Slow(FakeLease):
        def replace(self, lease: Lease, spec: Raw) -> Lease:
            leader.now += RENEW_SECONDS
            return super().replace(lease, spec)

    slow = Slow(server.lease, versions=server.versions)
    leader.election._leases = slow
    leader.election.renew()
    with pytest.raises(EndedError):
        leader.election.require()


def test_a_lost_answer_to_a_renewal_costs_no_lease(server: FakeLease, leader: Process) -> None:
    """The write was this process's own: the conflict with it is resolved, and the next renewal counts."""
    server.deaf = True
    leader.now += 2.0
    leader.election.renew()
    server.deaf = False
    for _ in range(2):
        leader.now += 4.0
        leader.election.renew()
    leader.now += RENEW_SECONDS - 0.1
    leader.election.require()


def test_a_deleted_lease_ends_its_holder(server: FakeLease, leader: Process) -> None:
    """Another process may have taken it, acted and gone since: nothing is known any more."""
    server.lease = None
    with pytest.raises(EndedError, match="the lease was deleted"):
        leader.election.renew()


def test_of_two_standbys_one_leads(server: FakeLease, leader: Process, standby: Process) -> None:
    other = Process(server, "c")
    assert not other.election.stand()
    standby.now, other.now = standby.now + SECONDS, other.now + SECONDS

    class Racing(FakeLease):
        """The other one is faster, between this one's look and its write."""

        def read(self) -> Lease | None:
            seen = server.read()
            assert other.election.stand()
            return seen

        def replace(self, lease: Lease, spec: Raw) -> Lease:
            return server.replace(lease, spec)

    standby.election._leases = Racing()
    assert not standby.election.stand()
    assert server.lease is not None
    assert (server.lease.holder, server.lease.transitions) == ("c", 1)


@pytest.mark.parametrize("leads", [False, True])
def test_a_lease_that_is_given_back_is_free_at_once(leader: Process, standby: Process, leads: bool) -> None:
    """Its holder may not act any more from then on. It may be asked to end right after it took the lease."""
    if leads:
        leader.election.lead()
    leader.election.release()
    assert standby.election.stand()
    with pytest.raises(EndedError):
        leader.election.require()


def test_a_standby_that_is_asked_to_end_leaves_the_lease_alone(
    server: FakeLease, leader: Process, standby: Process
) -> None:
    before = server.lease
    standby.election.release()
    assert server.lease == before


def test_an_api_server_that_is_away_makes_no_leader(server: FakeLease) -> None:
    process = Process(server, "a")
    server.away = True
    assert not process.election.stand()
    assert process.election.heard is None
    server.away = False
    assert process.election.stand()


def test_a_holder_without_a_duration_has_the_usual_one() -> None:
    """Written by hand, perhaps. It is not free at once."""
    sight = Sight(Lease({"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "x"}}), since=0.0)
    assert (sight.is_free(now=SECONDS - 1), sight.is_free(now=SECONDS)) == (False, True)


def test_the_threads_keep_the_lease_and_end_the_process(server: FakeLease, monkeypatch: pytest.MonkeyPatch) -> None:
    """They renew until the API server is away, then the watch ends the process without waiting for an answer."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.5)
    ended, renewed = threading.Event(), threading.Event()

    def stop(why: str) -> NoReturn:
        ended.set()
        threading.Event().wait()  # the thread that ends the process does nothing more
        raise AssertionError(why)

    class Counted(FakeLease):
        def replace(self, lease: Lease, spec: Raw) -> Lease:
            if self.versions > 5:
                renewed.set()
                ended.wait()  # a call that hangs
            return super().replace(lease, spec)

    found = Election(Counted(), identity="a", end=stop)
    assert found.stand()
    found.lead()
    assert renewed.wait(30)
    assert ended.wait(30)
