"""The flow of a compaction of a Hudi table, on a timeline in memory."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.hudi import HudiMode, HudiOptions, HudiStatus
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hudi.flow import LOOKS, HudiCompaction
from compaction_operator.hudi import (
    Action,
    Choice,
    FileGroup,
    HudiError,
    Instant,
    LogFile,
    Operation,
    Plan,
    State,
    WaitingForInstantError,
    Written,
)
from compaction_operator.hudi.jvm import HudiClient
from compaction_operator.hudi.plans import Choose, Cleaned

from .support import REQUEST, Reports

MINE = f"team/{REQUEST.uid}/1"
ENDS = (State.COMPLETED, State.INFLIGHT, State.REQUESTED)
CLEANS = ["roll back dead writes", f"plan a clean for team/{REQUEST.uid}/2", "clean 95"]


class Timeline(HudiClient):
    """A client of a table in memory: one file group with `blocks` log files, of 10 bytes each."""

    def __init__(self, *instants: Instant, blocks: int = 5, first_scanner: bool = False) -> None:
        self.found = {instant.time: instant for instant in instants}
        self.blocks = blocks
        self.busy: str | None = None
        self.calls: list[str] = []
        self.first_scanner = first_scanner
        self.before_commit: Callable[[], None] = lambda: None
        self.next = "90"
        self.partial = False
        self.deletes: frozenset[int] = frozenset()
        self.cleaner_fails = False
        self.files_to_clean = 7
        self.pending_cleans: tuple[Instant, ...] = ()
        self.unwritten: tuple[str, ...] = ()
        self.cleans_meanwhile: tuple[Instant, ...] = ()
        self.empty: tuple[Instant, ...] = ()
        self.empty_plans: tuple[str, ...] = ()
        self.more_groups: tuple[FileGroup, ...] = ()
        self.alive = False
        self.compared = ""

    def instants(self) -> tuple[Instant, ...]:
        return tuple(sorted(self.found.values(), key=lambda instant: instant.time))

    def plan_log_compaction(self, *, owner: str, choose: Choose, beside: bool) -> Plan | None:
        pending = [one.time for one in self.instants() if one.action is Action.DELTA_COMMIT and one.is_pending]
        if beside:
            pending = [time for time in pending if time <= f"{self.blocks:02}"]
        if self.busy or not choose(self._operation(), pending):
            return None
        return self._planned(Action.LOG_COMPACTION, owner)

    def plan_compaction(self, *, owner: str, alone: bool) -> Plan | None:
        if alone and any(one.action is Action.DELTA_COMMIT and one.is_pending for one in self.instants()):
            return None
        return self._planned(Action.COMPACTION, owner) if self.blocks and not self.busy else None

    def shows_life(self, instant: Instant) -> bool:
        return self.alive

    def plan_of(self, instant: Instant) -> Plan:
        return Plan(instant.time, instant.action, (self._operation(),))

    def run(self, plan: Plan, *, confirm: Callable[[], None]) -> Written:
        self.calls.append(f"run {plan.instant}")
        self._put(plan.instant, plan.action, State.INFLIGHT)
        self.before_commit()
        confirm()
        done = Action.DELTA_COMMIT if plan.action is Action.LOG_COMPACTION else Action.COMPACTION
        self._put(plan.instant, done, State.COMPLETED)
        return Written(40, 1, self.compared)

    def roll_back(self, instant: Instant) -> None:
        self.calls.append(f"roll back {instant.time}")
        del self.found[instant.time]

    def remove(self, instant: Instant, *, confirm: Callable[[], None]) -> None:
        confirm()
        self.calls.append(f"remove {instant.time}")
        del self.found[instant.time]

    def remove_empty_plans(self) -> tuple[str, ...]:
        return self.empty_plans

    def cut_short(self) -> tuple[Instant, ...]:
        return self.empty

    def reopen(self, instant: Instant, *, confirm: Callable[[], None]) -> bool:
        confirm()
        self.calls.append(f"reopen {instant.time}")
        self._put(instant.time, instant.action, State.INFLIGHT)
        return True

    def cleans(self) -> tuple[Instant, ...]:
        return self.pending_cleans

    def roll_back_dead_writes(self, *, confirm: Callable[[], None]) -> None:
        confirm()
        self.calls.append("roll back dead writes")

    def plan_clean(self, *, owner: str, confirm: Callable[[], None]) -> Instant | None:
        self.pending_cleans += self.cleans_meanwhile
        confirm()
        self.calls.append(f"plan a clean for {owner}")
        return clean("95", State.REQUESTED) if self.files_to_clean else None

    def run_clean(self, clean: Instant, *, confirm: Callable[[], None]) -> Cleaned:
        confirm()
        self.calls.append(f"clean {clean.time}")
        if self.cleaner_fails:
            raise HudiError("cleaning: no space left")
        self.pending_cleans = tuple(one for one in self.pending_cleans if one.time != clean.time)
        return Cleaned(clean.time, self.files_to_clean)

    def require_plan(self, clean: Instant) -> None:
        if clean.time in self.unwritten:
            raise WaitingForInstantError(f"{clean} has no content")

    def reopen_clean(self, clean: Instant, *, confirm: Callable[[], None]) -> Instant:
        confirm()
        self.calls.append(f"reopen clean {clean.time}")
        return replace(clean, state=State.INFLIGHT)

    def remove_clean(self, clean: Instant, *, confirm: Callable[[], None]) -> None:
        confirm()
        self.calls.append(f"remove clean {clean.time}")
        self.pending_cleans = tuple(one for one in self.pending_cleans if one != clean)

    def archive(self, *, confirm: Callable[[], None]) -> int:
        confirm()
        self.calls.append("archive")
        return 3

    def file_groups(self) -> tuple[FileGroup, ...]:
        return (FileGroup("", "f1", self.blocks, self.busy), *self.more_groups)

    def written(self, *, besides: str) -> tuple[int, int]:
        return 100, 250

    def _operation(self) -> Operation:
        made = partial(LogFile, size=10, partial=self.partial, deletes=self.deletes)
        files = tuple(made(f"log.{n}", (f"{n:02}",)) for n in range(1, self.blocks + 1))
        return Operation("", "f1", files)

    def _planned(self, action: Action, owner: str) -> Plan:
        self.calls.append(f"plan {self.next} for {owner}")
        self._put(self.next, action, State.REQUESTED, owner)
        seen = frozenset(one.time for one in self.instants() if one.action is Action.DELTA_COMMIT)
        return Plan(self.next, action, (self._operation(),), seen)

    def _put(self, time: str, action: Action, state: State, owner: str | None = MINE) -> None:
        self.found[time] = Instant(time, action, state, owner)


class Lease:
    """A lease that is lost after so many looks at it."""

    def __init__(self, looks: int = 999) -> None:
        self._looks = looks

    def confirm(self) -> None:
        self._looks -= 1
        if self._looks < 0:
            raise JobError(Reason.LOCK_LOST, "lost")


def compact(
    timeline: Timeline,
    type_: CompactionType = CompactionType.LOG_COMPACTION,
    *,
    lease: Lease | None = None,
    report: Reports | None = None,
    pause: Callable[[float], None] = lambda _: None,
    cleaner_held: bool = False,
    numbered: bool = False,
    keeps_deletes: bool = True,
    **own: Any,
) -> DriverResult:
    hudi = HudiOptions(**own)
    request = REQUEST.model_copy(update={"type": type_, "hudi": hudi, "cleaner_held": cleaner_held})
    newest_only = timeline.first_scanner
    choice = Choice(threshold=5, limit=None, partitions=(), newest_only=newest_only, keeps_deletes=keeps_deletes)
    status = HudiStatus(table_version=9, bundle="1.2.0")
    flow = HudiCompaction(
        timeline,
        request,
        choice=choice,
        lease=lease or Lease(),
        report=report or Reports(),
        status=status,
        numbered=numbered,
        pause=pause,
    )
    return flow.run()


def status_of(result: DriverResult) -> HudiStatus:
    assert result.hudi is not None
    return result.hudi


def commit(time: str, state: State = State.COMPLETED) -> Instant:
    return Instant(time, Action.DELTA_COMMIT, state)


def log_compaction(state: State, owner: str | None = MINE, time: str = "10") -> Instant:
    return Instant(time, Action.LOG_COMPACTION, state, owner)


def clean(time: str, state: State, owner: str | None = MINE) -> Instant:
    return Instant(time, Action.CLEAN, state, owner)


def compaction(state: State, owner: str | None = MINE, time: str = "20") -> Instant:
    return Instant(time, Action.COMPACTION, state, owner)


def test_a_log_compaction_is_planned_run_and_reported() -> None:
    timeline, report = Timeline(), Reports()
    result = compact(timeline, report=report)
    assert result.reason is Reason.COMPACTED
    assert result.message == "logcompaction 90 Completed: 1 file group, 5 blocks (50 bytes) became 1 (40 bytes)"
    assert timeline.calls == [f"plan 90 for team/{REQUEST.uid}/2", "run 90"]
    assert status_of(result).write_amplification == "2.50"
    assert report.said[-1] == Progress(partitions_done=1, partitions_total=1, bytes_done=50, bytes_total=50)


def test_too_few_blocks_are_said() -> None:
    result = compact(Timeline(blocks=2))
    assert (result.reason, result.message) == (Reason.NOTHING_TO_COMPACT, "2 blocks, threshold 5")
    assert status_of(result).nothing_planned == "2 blocks, threshold 5"


def test_a_dead_log_compaction_is_rolled_back_before_another_is_planned() -> None:
    timeline = Timeline(log_compaction(State.INFLIGHT))
    assert status_of(compact(timeline)).rolled_back == ("10",)
    assert timeline.calls == ["roll back 10", f"plan 90 for team/{REQUEST.uid}/2", "run 90"]


def test_a_commit_without_content_is_taken_back_and_what_had_begun_rolled_back() -> None:
    """Its driver died between the file and its content."""
    timeline = Timeline()
    timeline.empty = (log_compaction(State.COMPLETED),)
    assert status_of(compact(timeline)).rolled_back == ("10",)
    assert timeline.calls[:2] == ["reopen 10", "roll back 10"]


def test_a_foreign_commit_without_content_is_left_alone_unless_the_user_opts_in() -> None:
    for all_instants in (False, True):
        timeline = Timeline()
        timeline.empty = (log_compaction(State.COMPLETED, owner="team-2/other/1"),)
        compact(timeline, all_instants=all_instants)
        assert ("reopen 10" in timeline.calls) is all_instants


def test_an_impossible_plan_is_removed_before_another_is_planned() -> None:
    timeline = Timeline(log_compaction(State.REQUESTED), compaction(State.COMPLETED))
    timeline.empty_plans = ("05",)
    assert status_of(compact(timeline)).removed == ("05", "10")
    assert timeline.calls == ["remove 10", f"plan 90 for team/{REQUEST.uid}/2", "run 90"]


def test_a_dead_compaction_is_run_again_before_another_is_planned() -> None:
    timeline = Timeline(compaction(State.INFLIGHT))
    result = compact(timeline, CompactionType.COMPACTION)
    assert timeline.calls == ["run 20", f"plan 90 for team/{REQUEST.uid}/2", "run 90"]
    assert status_of(result).file_groups == 2


def test_what_is_only_scheduled_waits_on_the_timeline_and_is_not_planned_twice() -> None:
    timeline = Timeline()
    for attempt in (1, 2):
        result = compact(timeline, mode=HudiMode.SCHEDULE)
        assert result.reason is Reason.SCHEDULED, attempt
        assert status_of(result).pending == ("90.logcompaction.requested",)
    assert timeline.calls == [f"plan 90 for team/{REQUEST.uid}/2"]


def test_what_was_scheduled_for_another_resource_does_not_keep_this_one_from_its_own() -> None:
    timeline = Timeline(compaction(State.REQUESTED, owner="team/other/1"))
    assert status_of(compact(timeline, CompactionType.COMPACTION, mode=HudiMode.SCHEDULE)).instant == "90"


def test_what_was_scheduled_is_executed_by_another_run() -> None:
    timeline = Timeline(compaction(State.REQUESTED, owner="team/other/1"))
    result = compact(timeline, CompactionType.COMPACTION, mode=HudiMode.EXECUTE)
    assert (result.reason, timeline.calls) == (Reason.COMPACTED, ["run 20"])


def test_with_nothing_scheduled_nothing_is_executed() -> None:
    result = compact(Timeline(), mode=HudiMode.EXECUTE)
    assert result.reason is Reason.NOTHING_TO_COMPACT
    assert "no logcompaction of this operator is pending" in result.message


def test_a_foreign_plan_is_left_alone_and_named() -> None:
    timeline = Timeline(compaction(State.REQUESTED, owner=None))
    timeline.busy = "20"
    for type_ in (CompactionType.LOG_COMPACTION, CompactionType.COMPACTION):
        result = compact(timeline, type_)
        assert result.reason is Reason.WAITING_FOR_INSTANT
        assert "20.compaction.requested of another client" in result.message
    assert not timeline.calls


def test_a_foreign_plan_is_run_on_request() -> None:
    timeline = Timeline(compaction(State.REQUESTED, owner=None))
    timeline.busy = "20"
    compact(timeline, CompactionType.COMPACTION, all_instants=True)
    assert timeline.calls == ["run 20"]


@pytest.mark.parametrize("type_", [CompactionType.LOG_COMPACTION, CompactionType.COMPACTION])
def test_what_another_client_may_be_at_work_on_is_waited_for_whatever_the_user_opts_in(type_: CompactionType) -> None:
    begun = log_compaction if type_ is CompactionType.LOG_COMPACTION else compaction
    for owner, state, waits in (
        (None, State.INFLIGHT, True),
        (None, State.REQUESTED, False),
        (MINE, State.INFLIGHT, False),
    ):
        timeline = Timeline(begun(state, owner=owner))
        timeline.alive = True
        result = compact(timeline, type_, all_instants=True)
        assert (result.reason is Reason.WAITING_FOR_INSTANT) is (not timeline.calls) is waits
        assert (".inflight of another client shows signs of life" in result.message) is waits


def test_how_much_was_compared_is_said() -> None:
    timeline = Timeline()
    timeline.compared = "1 of 1 file group"
    assert compact(timeline).message.endswith("; 1 of 1 file group")


def test_a_file_group_in_a_compaction_of_ours_is_not_waited_for() -> None:
    timeline = Timeline(compaction(State.REQUESTED))
    timeline.busy = "20"
    result = compact(timeline)
    assert result.reason is Reason.NOTHING_TO_COMPACT
    assert result.message == "file group in pending 20.compaction.requested"


def test_a_compaction_waits_for_a_log_compaction_of_ours_that_keeps_its_file_group() -> None:
    timeline = Timeline(log_compaction(State.REQUESTED))
    timeline.busy = "10"
    result = compact(timeline, CompactionType.COMPACTION)
    assert result.reason is Reason.WAITING_FOR_INSTANT
    assert result.message == "file group in pending 10.logcompaction.requested of this operator"


def test_blocks_that_came_after_a_foreign_plan_are_too_few_by_themselves_or_a_compactions_to_wait_for() -> None:
    timeline = Timeline(compaction(State.REQUESTED, owner=None), blocks=1)
    timeline.busy = "20"
    assert compact(timeline).reason is Reason.NOTHING_TO_COMPACT
    assert compact(timeline, CompactionType.COMPACTION).reason is Reason.WAITING_FOR_INSTANT


def test_the_moment_between_two_commits_of_a_writer_is_waited_for() -> None:
    timeline, pauses = Timeline(commit("03", State.INFLIGHT), first_scanner=True), []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            timeline.found["03"] = commit("03")

    assert compact(timeline, pause=pause).reason is Reason.COMPACTED
    assert len(pauses) == 2


def test_a_writer_that_never_rests_does_not_keep_blocks_below_its_own_from_being_merged() -> None:
    timeline, pauses = Timeline(commit("07", State.INFLIGHT), first_scanner=True), list[float]()
    assert compact(timeline, pause=pauses.append).reason is Reason.COMPACTED
    assert len(pauses) == LOOKS


def test_where_log_files_have_numbers_a_moment_without_writers_is_needed() -> None:
    timeline = Timeline(commit("07", State.INFLIGHT), first_scanner=True)
    assert compact(timeline, numbered=True).reason is Reason.WAITING_FOR_INSTANT


@pytest.mark.parametrize("numbered", [False, True])
def test_where_log_files_have_numbers_a_compaction_needs_such_a_moment_too(numbered: bool) -> None:
    timeline, pauses = Timeline(commit("07", State.INFLIGHT)), list[float]()
    result = compact(timeline, CompactionType.COMPACTION, numbered=numbered, pause=pauses.append)
    assert len(pauses) == (LOOKS if numbered else 0)
    assert (result.reason is Reason.WAITING_FOR_INSTANT) is numbered
    assert ("delta commit 07 is pending" in result.message) is numbered


def test_a_pending_commit_that_stays_in_the_way_is_named() -> None:
    timeline = Timeline(commit("03", State.INFLIGHT), first_scanner=True)
    result = compact(timeline)
    assert result.reason is Reason.WAITING_FOR_INSTANT
    assert "delta commit 03 is pending" in result.message


def test_without_the_lease_nothing_is_committed() -> None:
    timeline = Timeline()
    with pytest.raises(JobError) as caught:
        compact(timeline, lease=Lease(looks=3))
    assert caught.value.reason is Reason.LOCK_LOST
    assert timeline.found["90"].state is State.INFLIGHT


@pytest.mark.parametrize("now", [compaction(State.COMPLETED, time="90"), None])
def test_a_plan_that_another_client_committed_or_took_back_is_not_committed(now: Instant | None) -> None:
    timeline = Timeline()

    def meanwhile() -> None:
        del timeline.found["90"]
        if now:
            timeline.found["90"] = now

    timeline.before_commit = meanwhile
    with pytest.raises(JobError, match=f"any more: it is {now or 'gone'}") as caught:
        compact(timeline, CompactionType.COMPACTION)
    assert caught.value.reason is Reason.WAITING_FOR_INSTANT


@pytest.mark.parametrize("newcomer", [commit("50"), compaction(State.REQUESTED, None, time="95")])
def test_what_writers_overtook_is_rolled_back_where_readers_would_replay_it_last(newcomer: Instant) -> None:
    timeline = Timeline(first_scanner=True)
    timeline.before_commit = lambda: timeline.found.update({newcomer.time: newcomer})
    with pytest.raises(JobError, match=newcomer.time) as caught:
        compact(timeline)
    assert caught.value.reason is Reason.WAITING_FOR_INSTANT
    assert timeline.calls[-1] == "roll back 90"


def test_where_log_files_have_numbers_any_newcomer_overtakes_it() -> None:
    """Its block may lie below the merged one, though its instant is newer."""
    timeline = Timeline(first_scanner=True)
    timeline.before_commit = lambda: timeline.found.update({"95": commit("95")})
    with pytest.raises(JobError, match=r"overtaken by 95\.deltacommit"):
        compact(timeline, numbered=True)
    assert timeline.calls[-1] == "roll back 90"


def test_a_log_compaction_that_fails_is_rolled_back_at_once() -> None:
    timeline = Timeline()

    def fail() -> None:
        raise HudiError("3 records could not be written")

    timeline.before_commit = fail
    with pytest.raises(HudiError, match="3 records"):
        compact(timeline)
    assert timeline.calls[-1] == "roll back 90"


def test_a_log_compaction_that_fails_without_the_lease_is_left_to_who_has_it() -> None:
    """A driver that was stopped for long: its successor is at the same rollback."""
    timeline = Timeline()

    def fail() -> None:
        raise HudiError("3 records could not be written")

    timeline.before_commit = fail
    with pytest.raises(HudiError, match="3 records"):
        compact(timeline, lease=Lease(looks=3))
    assert timeline.calls[-1] == "run 90"


def test_a_foreign_plan_that_would_lose_records_is_never_run() -> None:
    timeline = Timeline(log_compaction(State.REQUESTED, owner=None))
    timeline.partial = True
    with pytest.raises(HudiError, match="changed columns"):
        compact(timeline, all_instants=True)
    assert not timeline.calls


def test_a_plan_that_would_lose_deletes_is_never_run() -> None:
    """A driver of an earlier version may have made it."""
    timeline = Timeline(log_compaction(State.REQUESTED))
    timeline.deletes = frozenset({2})
    with pytest.raises(HudiError, match=r"log\.5: its deletes would be lost by Hudi 1\.0"):
        compact(timeline, keeps_deletes=False)
    assert not timeline.calls


def test_where_readers_put_it_in_its_place_it_is_committed_all_the_same() -> None:
    """RFC-48, scenarios 1 and 4: other blocks, or a compaction, come in meanwhile."""
    timeline = Timeline()
    newcomers = {"50": commit("50"), "95": compaction(State.REQUESTED, None, time="95")}
    timeline.before_commit = lambda: timeline.found.update(newcomers)
    assert compact(timeline).reason is Reason.COMPACTED


def test_the_cleaner_and_the_archiver_run_when_they_are_asked_for() -> None:
    timeline = Timeline(blocks=0)
    result = compact(timeline, clean=True, archive=True)
    assert timeline.calls == [*CLEANS, "archive"]
    status = status_of(result)
    assert (status.cleaned, status.files_deleted, status.archived) == ("95: 7 files", 7, 3)


def test_the_type_clean_cleans_and_compacts_nothing() -> None:
    timeline, report = Timeline(), Reports()
    result = compact(timeline, CompactionType.CLEAN, report=report)
    assert timeline.calls == CLEANS
    assert (result.reason, result.message) == (Reason.CLEANED, "clean 95 Completed: 7 files deleted")
    assert (status_of(result).files_deleted, status_of(result).instant) == (7, None)
    assert report.said[-1] == Progress(partitions_done=1, partitions_total=1)


def test_a_table_without_anything_to_clean_says_so() -> None:
    timeline = Timeline()
    timeline.files_to_clean = 0
    result = compact(timeline, CompactionType.CLEAN, archive=True)
    assert (result.reason, result.message) == (Reason.CLEANED, "nothing to clean; 3 instants archived")


def test_the_type_archive_archives_and_cleans_nothing() -> None:
    timeline = Timeline()
    result = compact(timeline, CompactionType.ARCHIVE)
    assert (timeline.calls, result.reason, result.message) == (["archive"], Reason.ARCHIVED, "3 instants archived")


@pytest.mark.parametrize("kind", [CompactionType.CLEAN, CompactionType.ARCHIVE])
def test_upkeep_first_repairs_what_a_dead_driver_left(kind: CompactionType) -> None:
    timeline = Timeline()
    timeline.empty, timeline.empty_plans = (log_compaction(State.COMPLETED),), ("05",)
    assert status_of(compact(timeline, kind)).removed == ("05",)
    assert timeline.calls[0] == "reopen 10"


def test_a_clean_that_had_begun_is_finished_and_one_that_had_not_is_planned_anew() -> None:
    timeline = Timeline()
    timeline.pending_cleans = tuple(clean(str(time), state) for time, state in zip((50, 60, 70), ENDS, strict=True))
    result = compact(timeline, CompactionType.CLEAN)
    repairs = ["reopen clean 50", "remove clean 70", "clean 50", "clean 60"]
    assert timeline.calls == [CLEANS[0], *repairs, *CLEANS[1:]]
    assert status_of(result).files_deleted == 21


@pytest.mark.parametrize(("state", "what"), [(State.REQUESTED, "plan it again"), (State.INFLIGHT, "finish it")])
def test_a_clean_of_another_client_is_waited_for_unless_the_user_opts_in(state: State, what: str) -> None:
    for all_instants in (False, True):
        timeline = Timeline()
        timeline.pending_cleans = (clean("60", state, owner=None),)
        if all_instants:
            assert compact(timeline, CompactionType.CLEAN, all_instants=True).reason is Reason.CLEANED
            continue
        with pytest.raises(HudiError, match=rf"60\.clean\.{state.lower()} of another client is pending") as waits:
            compact(timeline, CompactionType.CLEAN)
        assert (waits.value.reason, timeline.calls) == (Reason.WAITING_FOR_INSTANT, [])
        assert str(waits.value).endswith(f"if that client is gone, `hudi.allInstants: true` lets this one {what}")


def test_a_clean_whose_plan_is_being_written_is_waited_for_whatever_the_user_opts_in() -> None:
    for all_instants in (False, True):
        timeline = Timeline()
        timeline.pending_cleans, timeline.unwritten = (clean("60", State.REQUESTED, owner=None),), ("60",)
        with pytest.raises(WaitingForInstantError, match=r"60\.clean\.requested has no content"):
            compact(timeline, CompactionType.CLEAN, all_instants=all_instants)
        assert timeline.calls == []


def test_a_clean_that_another_client_planned_meanwhile_is_waited_for() -> None:
    timeline = Timeline()
    timeline.cleans_meanwhile = (clean("94", State.REQUESTED, owner=None),)
    with pytest.raises(HudiError, match="another client is pending"):
        compact(timeline, CompactionType.CLEAN)
    assert timeline.calls == CLEANS[:1]


@pytest.mark.parametrize(("looks", "done"), [(1, 0), (2, 1), (3, 2)])
def test_nothing_is_cleaned_without_the_lease(looks: int, done: int) -> None:
    timeline = Timeline()
    with pytest.raises(JobError, match="lost"):
        compact(timeline, CompactionType.CLEAN, lease=Lease(looks))
    assert timeline.calls == CLEANS[:done]


def test_who_holds_all_deletion_holds_the_cleaner_too() -> None:
    timeline = Timeline()
    result = compact(timeline, clean=True, cleaner_held=True)
    assert not {*CLEANS} & {*timeline.calls}
    assert result.reason is Reason.COMPACTED
    assert status_of(result).cleaned == "not cleaned: the operator's cleanup.suspend is set"


def test_what_was_compacted_is_reported_though_the_cleaner_fails() -> None:
    timeline = Timeline()
    timeline.cleaner_fails = True
    result = compact(timeline, clean=True)
    assert result.reason is HudiError.reason
    assert result.message.endswith("became 1 (40 bytes); then cleaning: no space left")
    assert status_of(result).state == "Completed"


def test_one_small_file_group_of_a_foreign_plan_does_not_hide_one_that_is_worth_waiting_for() -> None:
    timeline = Timeline(compaction(State.REQUESTED, owner=None))
    timeline.busy = "20"
    timeline.more_groups = (FileGroup("", "f2", 1, "20"),)
    assert compact(timeline).reason is Reason.WAITING_FOR_INSTANT


def test_an_empty_compaction_says_why() -> None:
    assert compact(Timeline(blocks=0), CompactionType.COMPACTION).message == "no file group has log files"


def test_on_the_metadata_table_nothing_is_planned_while_anything_is_pending() -> None:
    """Its index of records takes them in the order in which they were planned."""
    timeline = Timeline(compaction(State.REQUESTED, owner=None))
    result = compact(timeline, metadata_table=True)
    assert (result.reason, timeline.calls) == (Reason.WAITING_FOR_INSTANT, [])


def test_on_the_metadata_table_no_pending_commit_is_waited_for_as_none_can_end_under_its_lock() -> None:
    pauses: list[float] = []
    timeline = Timeline(commit("03", State.INFLIGHT), first_scanner=True)
    assert compact(timeline, metadata_table=True, pause=pauses.append).reason is Reason.WAITING_FOR_INSTANT
    assert not pauses
