"""Runner of CompactionPolicies: look, decide, write the status, then create and delete. Idle without any policy."""

import logging
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.api.policy import CompactionPolicySpec, CompactionPolicyStatus
from compaction_operator.api.why import Explanation
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.kube.client import ConflictError, GoneError, KubeError
from compaction_operator.controller.kube.cluster import run_in
from compaction_operator.controller.kube.resources import Compaction, Key, Policy, ResourceKind, read_policy
from compaction_operator.controller.ownership import NOT_SERVED
from compaction_operator.controller.permissions import policy_refusal
from compaction_operator.controller.policies.decide import Plan, cannot_work, hours, plan, restored
from compaction_operator.controller.policies.manifest import compaction_manifest
from compaction_operator.controller.policies.report import looked, not_ready, suspended
from compaction_operator.controller.policies.standing import Created, Known, known_of, last_ended
from compaction_operator.controller.policies.why import Asked, Question, answers
from compaction_operator.controller.services import Services
from compaction_operator.logs import set_subject
from compaction_operator.policy.choice import Verdict, failures
from compaction_operator.policy.explain import Look
from compaction_operator.policy.forecasts import Outlooks, with_new
from compaction_operator.policy.memory import Memory
from compaction_operator.policy.naming import compaction_name
from compaction_operator.policy.upcoming import Lacking, lacking, learned

log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds until the next look while tables are still unread, or after a conflict."""
RETRY = 15.0
SEEN_AFTER = 300.0
"""Seconds after which a created compaction that never came by the watch is taken for deleted."""


@dataclass
class _Upkeep:
    """One policy, when its next look is due, and what its looks have found.

    `created` are compactions that the watch has not brought yet, and at which tick they were created. `look` is the
    last look, for those who ask. `outlooks` are the forecasts that are known, `lacking` those to make next, and
    `asking` is whether some are being made.
    """

    policy: Policy
    due: float
    memory: Memory
    created: dict[Key, tuple[Created, float]] = field(default_factory=dict)
    look: Look | None = None
    busy: bool = False
    outlooks: Outlooks = field(default_factory=dict)
    lacking: tuple[Lacking, ...] = ()
    asking: bool = False


class PolicyRunner:
    """All CompactionPolicies.

    NB: their looks have a thread of their own for each warehouse: they delay no other work.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._upkeeps: dict[Key, _Upkeep] = {}

    def on_event(self, event: str | None, raw: Mapping[str, Any]) -> None:
        """Handle a watch event. A new spec is looked at at once. Raises ValueError if the policy cannot be read."""
        key = Key(ResourceKind.POLICY, raw["metadata"]["namespace"], raw["metadata"]["name"])
        if event == "DELETED":
            self._upkeeps.pop(key, None)
            return
        policy, known = read_policy(raw), self._upkeeps.get(key)
        if known is None or known.policy.meta.uid != policy.meta.uid:
            memory = Memory(due_since=restored(policy.status))
            self._upkeeps[key] = _Upkeep(policy, self._services.ticks(), memory)
        elif policy.meta.resource_version > known.policy.meta.resource_version:
            self._renew(known, policy)

    def keep_only(self, uids: Collection[str], namespace: str) -> None:
        """Forget a namespace's policies that a list of all of them does not have: they were deleted unseen."""
        for key, upkeep in list(self._upkeeps.items()):
            if key.namespace == namespace and upkeep.policy.meta.uid not in uids:
                del self._upkeeps[key]

    def _renew(self, known: _Upkeep, policy: Policy) -> None:
        old, new = known.policy.spec, policy.spec
        if policy.meta.generation != known.policy.meta.generation:
            known.due = self._services.ticks()
            known.memory = replace(known.memory, began=None)
        if old.warehouse != new.warehouse:
            known.outlooks, known.lacking = {}, ()
        if _what_listing_reads(old) != _what_listing_reads(new):
            known.memory = replace(known.memory, tables={})
        known.policy = policy

    def own(self) -> list[Policy]:
        """Return the policies that this operator handles, from any thread."""
        return [policy for policy, _ in self.remembered()]

    def remembered(self) -> list[tuple[Policy, Memory]]:
        """Return the policies that this operator handles with what it knows of their tables, from any thread."""
        upkeeps = list(self._upkeeps.values())  # a copy in a single step: the loop goes on meanwhile
        return [(one.policy, one.memory) for one in upkeeps if self._services.ownership.has(one.policy)]

    def why(self, question: Question) -> list[Explanation]:
        """Answer a question about a table from the last looks, from any thread. Raises NoPolicyError.

        Policies of other operators are left out: these have made looks of their own.
        """
        services, now = self._services, self._services.clock()
        ticks = services.ticks()
        asked = [
            Asked(one.policy, one.look, None if one.busy else now + timedelta(seconds=max(0.0, one.due - ticks)))
            for one in list(self._upkeeps.values())  # a copy in a single step: the loop goes on meanwhile
            if one.policy.status.operator is None or services.ownership.has(one.policy)
        ]
        cache = services.cache
        return answers(question, asked, cache.compactions.all(), config=services.config, place=cache.place)

    def start_due(self, now: float) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the looks that are due now, and what asks for the forecasts that a look has found to be lacking."""
        for key, upkeep in self._upkeeps.items():
            if upkeep.due <= now and not upkeep.busy:
                upkeep.busy = True
                yield self._run(key, upkeep)
            if upkeep.lacking and not upkeep.asking:
                asked, upkeep.lacking, upkeep.asking = upkeep.lacking, (), True
                yield self._forecast(upkeep, asked)

    def next_due(self) -> float | None:
        """Return the time of the next look, None without policies."""
        return min((one.due for one in self._upkeeps.values() if not one.busy), default=None)

    async def _run(self, key: Key, upkeep: _Upkeep) -> None:
        set_subject(upkeep.policy.subject)
        generation, pause = upkeep.policy.meta.generation, RETRY
        try:
            pause = await self._step(upkeep)
        except ConflictError:
            pause = AGAIN
        except GoneError:
            if self._upkeeps.get(key) is upkeep:
                del self._upkeeps[key]
        except KubeError as error:
            log.warning("policy %s: %s", key, error)
            self._services.metrics.reconcile_errors.labels(key.kind.value).inc()
        except Exception:
            log.exception("policy %s could not be reconciled", key)
            self._services.metrics.reconcile_errors.labels(key.kind.value).inc()
        finally:
            upkeep.busy = False
            if upkeep.policy.meta.generation == generation:
                upkeep.due = self._services.ticks() + pause

    async def _forecast(self, upkeep: _Upkeep, asked: Sequence[Lacking]) -> None:
        """Make forecasts that are lacking; the next look decides with them."""
        set_subject(upkeep.policy.subject)
        warehouse = upkeep.policy.spec.warehouse
        try:
            answers = await self._services.forecasts.ask(warehouse, [one.question for one in asked])
        except Exception:
            log.exception("policy %s: the forecasts could not be made", upkeep.policy.key)
        else:
            if upkeep.policy.spec.warehouse == warehouse:
                upkeep.outlooks = with_new(upkeep.outlooks, learned(asked, answers, self._services.clock()))
        finally:
            upkeep.asking = False

    async def _step(self, upkeep: _Upkeep) -> float:
        """Look and act once; return the seconds until the next look."""
        policy, now = upkeep.policy, self._services.clock()
        if not self._services.ownership.sees(policy.meta.namespace):
            return RETRY
        if not self._services.ownership.has(policy):
            return await self._leave(upkeep, policy, now)
        if stopped := suspended(policy, now) if policy.spec.suspend else self._refused(policy, now):
            if stopped != policy.status or self._services.cluster.is_taken_over(policy):
                await self._write(upkeep, policy, stopped)
            return policy.spec.interval
        memory = await self._look(upkeep, policy)
        if isinstance(memory, Trouble):
            await self._not_ready(upkeep, ConditionStatus.UNKNOWN, memory.reason, memory.message)
            return policy.spec.interval
        await self._act(upkeep, policy, memory)
        return AGAIN if memory.is_new else policy.spec.interval

    async def _leave(self, upkeep: _Upkeep, policy: Policy, now: datetime) -> float:
        """Leave a policy to another operator. One that no operator writes to gets one note."""
        self._services.leave(policy)
        ownership, namespace = self._services.ownership, policy.meta.namespace
        left = ownership.silence(policy, now, handled=namespace in self._services.cache.handled)
        if not policy.status.conditions and left == 0:
            message = ownership.not_served(namespace)
            told = not_ready(policy, status=ConditionStatus.UNKNOWN, reason=NOT_SERVED, message=message, now=now)
            await self._write(upkeep, policy, told, claim=False)
        return left or policy.spec.interval

    def _known(self, policy: Policy, memory: Memory) -> Known:
        cache = self._services.cache
        return known_of(policy, cache.compactions.all(), cache.place, memory.names_of_places())

    def _refused(self, policy: Policy, now: datetime) -> CompactionPolicyStatus | None:
        """Return the status of a policy that cannot work at all, None if it can."""
        refused = policy_refusal(policy, self._services.config)
        found = (refused.reason, refused.message) if refused else cannot_work(policy.spec, now)
        if found is None:
            return None
        return not_ready(policy, status=ConditionStatus.FALSE, reason=found[0], message=found[1], now=now)

    async def _not_ready(self, upkeep: _Upkeep, status: ConditionStatus, reason: str, message: str) -> None:
        now = self._services.clock()
        changed = not_ready(upkeep.policy, status=status, reason=reason, message=message, now=now)
        await self._write(upkeep, upkeep.policy, changed)

    async def _look(self, upkeep: _Upkeep, policy: Policy) -> Memory | Trouble:
        warehouse, memory, cache = policy.spec.warehouse, upkeep.memory, self._services.cache
        pool = self._services.pools.of_warehouse(warehouse).surveys
        answer = await run_in(
            pool,
            self._services.work.survey,
            warehouse,
            policy.spec,
            memory,
            ended=last_ended(warehouse, cache.compactions.all(), cache.cleanups.all(), cache.place),
            due=tuple(memory.due_since),
        )
        self._services.report(warehouse, "survey", answer if isinstance(answer, Trouble) else None)
        return answer

    async def _act(self, upkeep: _Upkeep, policy: Policy, memory: Memory) -> None:
        """Decide on what the look found, write the status, then create and delete.

        NB: the status is written against the version that was decided on. So a policy that was suspended, changed or
        deleted meanwhile creates nothing: the write fails.
        """
        now, known = self._services.clock(), self._known(policy, memory)
        memory = replace(memory, began=memory.began or now, outlooks=upkeep.outlooks)
        when = hours(policy.spec, now)
        created, pool = self._created(upkeep), self._services.pools.of_warehouse(policy.spec.warehouse).surveys
        decision = await run_in(pool, plan, policy.spec, memory, known, created=created, when=when, now=now)
        memory = replace(memory, due_since=decision.due_since)
        await self._write(upkeep, policy, looked(policy, memory, known, decision, when=when, now=now))
        if upkeep.policy.meta.generation != policy.meta.generation:
            return  # the spec was changed right after the write: what was found may be of no use for the new one
        upkeep.memory = memory
        upkeep.look = look = Look(policy.meta.generation, now, memory, decision.verdicts, known.past)
        try:
            for verdict in decision.starting:
                if not self._may_still_start(upkeep, policy, verdict.candidate.table):
                    break
                cpu = decision.standing.cpu_of(verdict.candidate)
                look.created[verdict.candidate.table] = await self._create(upkeep, policy, known, verdict, cpu=cpu)
        except KubeError as error:
            # People do not see the log. Examples: a quota, an admission policy.
            upkeep.look = replace(look, refusal=str(error))
            await self._not_ready(upkeep, ConditionStatus.FALSE, "NotCreated", str(error))
            return
        if not memory.is_new and upkeep.policy.meta.generation == policy.meta.generation:
            upkeep.lacking = lacking(decision.verdicts, memory.outlooks, policy.spec.strategy, now)
        await self._prune(known, decision)

    def _may_still_start(self, upkeep: _Upkeep, policy: Policy, table: str) -> bool:
        """Whether nothing has happened since the decision that keeps a table back; the next look decides again.

        Other policies and people create compactions too, a policy may be suspended or deleted, and windows close.
        """
        if self._upkeeps.get(policy.key) is not upkeep or upkeep.policy.meta.generation != policy.meta.generation:
            return False
        others = (one for one in self._upkeeps.values() if one.policy.spec.warehouse == policy.spec.warehouse)
        new = {created.table for one in others for created in self._created(one)}
        taken = self._known(policy, upkeep.memory).unfinished | new
        return table not in taken and hours(policy.spec, self._services.clock()).open

    def _created(self, upkeep: _Upkeep) -> list[Created]:
        """Return the compactions that were created and have not come by the watch yet."""
        cache, now = self._services.cache, self._services.ticks()
        for key, (_, at) in list(upkeep.created.items()):
            if cache.compactions.get(key) is not None or now - at > SEEN_AFTER:
                del upkeep.created[key]
        return [created for created, _ in upkeep.created.values()]

    async def _write(
        self, upkeep: _Upkeep, policy: Policy, status: CompactionPolicyStatus, *, claim: bool = True
    ) -> None:
        written = await self._services.cluster.write_policy(policy, status, claim=claim)
        if upkeep.policy is policy:
            upkeep.policy = written

    async def _create(self, upkeep: _Upkeep, policy: Policy, known: Known, verdict: Verdict, *, cpu: int) -> str:
        """Create a compaction that is expected to take so many CPU milliseconds; return its name."""
        found, past = verdict.candidate, known.past.get(verdict.candidate.table, ())
        previous = past[-1].name if past else None
        name = compaction_name(policy_uid=policy.meta.uid, table=found.table, type_=found.type, previous=previous)
        log.info("policy %s: compaction %s of %s: %s", policy.key, name, found.table, found.reason)
        manifest = compaction_manifest(policy, found, name=name, failures=failures(past, found.type), cpu=cpu)
        await self._services.cluster.create_compaction(manifest)
        key = Key(ResourceKind.COMPACTION, policy.meta.namespace, name)
        created = Created(found.table, self._services.clock(), found.bytes, cpu)
        upkeep.created[key] = created, self._services.ticks()
        return name

    async def _prune(self, known: Known, decision: Plan) -> None:
        by_name: Mapping[str, Compaction] = {one.meta.name: one for one in known.mine}
        for old in decision.expired:
            if self._services.ownership.has(by_name[old.name]):
                await self._services.cluster.discard_compaction(by_name[old.name])


def _what_listing_reads(spec: CompactionPolicySpec) -> tuple[Any, ...]:
    """Return what the memory of a table depends on."""
    return spec.warehouse, spec.thresholds, spec.template.allow_auto_compaction, spec.template.hudi
