"""The controller's work with metastore and storage: blocking, repeatable calls that run in worker threads."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from compaction_operator.api.cleanup import PartitionEntry
from compaction_operator.api.compaction import (
    CompactionType,
    Readers,
    TableCompactionSpec,
    TableCompactionStatus,
    TableRef,
)
from compaction_operator.api.config import HidingLock, Metastore, OperatorConfig, Warehouse
from compaction_operator.api.hudi import HudiOptions
from compaction_operator.api.policy import CompactionPolicySpec
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.attempt import (
    Attempt,
    Holdings,
    Orphan,
    end_attempt,
    end_dead_entries,
    holdings,
    orphans,
    others_at_work,
    revoke_uploads,
)
from compaction_operator.cleanup.deletion import Deletions, JournalPass, delete_obsolete, plan_deletion
from compaction_operator.cleanup.places import hive3_refusal, require_allowed, require_reachable
from compaction_operator.cleanup.publication import UndecidedError
from compaction_operator.cleanup.quarantine import purge_quarantined, quarantine_obsolete
from compaction_operator.cleanup.queue_entries import StillThereError, finish
from compaction_operator.cleanup.reader_lock import Holding, LockPolicy, Sightings
from compaction_operator.cleanup.readers import ReaderSnapshot, look_at_all
from compaction_operator.cleanup.receipted import ReceiptBook, ReceiptNotWrittenError, draft_of
from compaction_operator.cleanup.settle import Settlement, is_lost, settle
from compaction_operator.controller.answers import Automatic, Preflight, Trouble
from compaction_operator.controller.facts import compaction_facts, deletion_facts
from compaction_operator.controller.kube.cache import Recent
from compaction_operator.controller.kube.resources import Cleanup, Compaction, TableKey
from compaction_operator.controller.kube.times import Clock, parse_time, rfc3339
from compaction_operator.controller.permissions import may_use, readers_refusal
from compaction_operator.controller.pool import Pool
from compaction_operator.controller.survey import Surveyor
from compaction_operator.hudi import HudiError, bundle_and_options, read_table, require_fitting_type
from compaction_operator.metastore import (
    Generation,
    LockInfo,
    MetastoreClient,
    MetastoreError,
    MetastoreUnavailable,
    QueueEntry,
    Refused,
    Table,
    Taken,
    Target,
    auto_compaction,
    cleaner_runs,
    compactable_table,
    hudi_table,
    partition_names,
    require_one_compactor,
    resolve,
    say_queued,
)
from compaction_operator.permit import Permit, always
from compaction_operator.policy.memory import Memory
from compaction_operator.storage import Storage, StorageError, Stores, normal
from compaction_operator.storage.uri import Location

log = logging.getLogger(__name__)

TROUBLES = (MetastoreError, StorageError, UndecidedError, StillThereError, ReceiptNotWrittenError, ValueError)
"""Errors that a retry may resolve."""


REMEMBERED_JOURNALS = 10_000
"""How many journals are known to have no uploads left. Forgetting one costs some requests."""

CLOCKS_DIFFER = timedelta(minutes=10)
"""How far the clocks of two controllers may differ. A receipt of before the attempt is not the compaction's."""


class UnknownWarehouseError(MetastoreError):
    """The configuration has no warehouse of that name, or no longer has one."""


class NotAllowedError(MetastoreError):
    """The configuration does not, or no longer, allow this namespace to use that warehouse or database."""


OpenStorage = Callable[[str], Storage]


def opener(config: OperatorConfig, warehouse: Warehouse, *, permit: Permit = always) -> OpenStorage:
    """Return what opens the storage of a warehouse's locations in the controller's pod."""
    root, folders = config.volume_root(warehouse), config.local_folders(warehouse)
    return Stores(warehouse.stores, root=root, folders=folders, permit=permit).open


P = ParamSpec("P")
A = TypeVar("A")
LookUp = Callable[[str], Iterable[Cleanup] | None]
"""Returns the journals of the attempts of a compaction's UID, None if they cannot all be known."""


def _answering(work: Callable[P, A]) -> Callable[P, A | Trouble]:
    """Return errors that a retry may resolve instead of raising them."""

    @wraps(work)
    def answer(*args: P.args, **options: P.kwargs) -> A | Trouble:
        try:
            return work(*args, **options)
        except TROUBLES as error:
            return _trouble(error)

    return answer


class Work:
    """The blocking operations that the controller needs, on the warehouses' metastores and files.

    They return errors that a retry may resolve, as a Trouble; they do not raise them.
    """

    def __init__(
        self,
        config: OperatorConfig,
        *,
        clock: Clock,
        connect: Callable[[Metastore], MetastoreClient] = MetastoreClient,
        stores: Callable[[Warehouse], OpenStorage] | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._connect = connect
        self._connect_stores = stores or partial(opener, config)
        self._clients: dict[str, MetastoreClient] = {}
        self._stores: dict[str, OpenStorage] = {}
        self._books: dict[str, ReceiptBook] = {}
        self._probed: set[tuple[str, str]] = set()
        self._seen: defaultdict[str, Sightings] = defaultdict(Sightings)
        self._revoked: Recent[str, None] = Recent(REMEMBERED_JOURNALS)
        self._lock = threading.Lock()

    def preflight(self, compaction: Compaction) -> Preflight:
        """Determine whether the compaction's table and partitions can be compacted as requested."""
        return self._preflight_hudi(compaction.spec) if compaction.is_hudi else self._preflight_hive(compaction)

    def _preflight_hudi(self, spec: TableCompactionSpec) -> Preflight:
        own = spec.hudi or HudiOptions()
        if spec.type is CompactionType.CLEAN and self._config.cleanup.suspend:
            message = "the operator's cleanup.suspend is set: Hudi's cleaner does not run"
            return Preflight(Reason.SUSPENDED, message)
        try:
            require_fitting_type(spec.type, own, partitions=spec.partitions)
            location = spec.table.location or self._hudi_location(spec)
            table = read_table(self._open_storage(spec.warehouse)(location), location)
            given = self._warehouse(spec.warehouse).hudi.options
            bundle_and_options(table, spec.type, own, warehouse=given, partitions=spec.partitions)
        except (Refused, HudiError) as refused:
            return Preflight(refused.reason, str(refused))
        except StorageError as error:
            return Preflight(Reason.STORAGE_UNAVAILABLE, f"table {spec.table}: {error}")
        except MetastoreError as error:
            return Preflight(Reason.METASTORE_UNAVAILABLE, str(error))
        return Preflight(location=normal(location))

    def _hudi_location(self, spec: TableCompactionSpec) -> str:
        table = hudi_table(self._client(spec.warehouse), spec.table)
        require_reachable(table, self._warehouse(spec.warehouse))
        require_allowed(table, self._warehouse(spec.warehouse))
        return table.location

    def _preflight_hive(self, compaction: Compaction) -> Preflight:
        """Query the metastore.

        NB: no attempt may run on the table: entries of dead attempts in the queue are ended first.
        """
        ref, specs = compaction.spec.table, compaction.spec.partitions
        automatic = None
        try:
            client = self._client(compaction.spec.warehouse)
            table = compactable_table(client, ref)
            # NB: who puts a table into the pool wants Hive's Initiator to go on.
            automatic = _automatic(client, table) if compaction.spec.queue_id is None else None
            require_reachable(table, self._warehouse(compaction.spec.warehouse))
            require_allowed(table, self._warehouse(compaction.spec.warehouse))
            found = automatic.found if automatic else None
            require_one_compactor(client, table, allowed=compaction.spec.allow_auto_compaction, found=found)
            self._require_publishable(compaction.spec.warehouse, client, table)
            names = partition_names(client, table, ref, specs)
            storage = self._open_storage(compaction.spec.warehouse)
            end_dead_entries(storage, client, ref, last=attempt_of(compaction), now=self._clock())
            busy = self._queued(client, compaction, names if table.partition_keys else ())
            other = others_at_work(client, ref, compaction.meta.uid) if self._config.watched() else None
        except Refused as refused:
            return Preflight(refused.reason, str(refused), automatic)
        except StorageError as error:
            return Preflight(Reason.STORAGE_UNAVAILABLE, f"table {ref}: {error}")
        except MetastoreError as error:
            return Preflight(Reason.METASTORE_UNAVAILABLE, str(error))
        if busy:
            return Preflight(Reason.IN_COMPACTION_QUEUE, _in_queue(ref, busy), automatic)
        if other is not None:
            return Preflight(Reason.WAITING_FOR_LOCK, _out_of_sight(ref, other), automatic)
        return Preflight(automatic=automatic)

    def _require_publishable(self, warehouse: str, client: MetastoreClient, table: Table) -> None:
        """Raise Refused for a store where nothing can ever be published, StorageError for errors that may pass."""
        storage = self._open_storage(warehouse)(table.location)
        why = hive3_refusal(storage.abilities)
        if why is None or client.generation() is not Generation.HIVE3:
            why = self._shortcoming(warehouse, storage, table.location)
        if why is not None:
            where = f"table {table.database}.{table.name} at {table.location}"
            raise Refused(Reason.UNSUPPORTED_TABLE, f"{where}: {why}")

    @_answering
    def check_store(self, warehouse: str, location: str) -> str | None:
        """Return why no table at a location can be published to safely, None if it can, or why that is unknown."""
        storage = self._open_storage(warehouse)(location)
        storage.exists(location)
        return self._shortcoming(warehouse, storage, location)

    def _shortcoming(self, warehouse: str, storage: Storage, location: str) -> str | None:
        """Return what a store lacks for uploads. A bucket that lacks nothing is not probed again by this process."""
        key = warehouse, Location.parse(location).authority
        if storage.uploads is None or key in self._probed:
            return None
        if why := storage.uploads.probe(location):
            return f"this store cannot be published to safely: {why}"
        self._probed.add(key)
        return None

    def _queued(self, client: MetastoreClient, compaction: Compaction, partitions: Sequence[str]) -> list[QueueEntry]:
        """Return the queue entries of compactions of these partitions, running or about to run (hazard H23).

        The compaction's own entry is not one of them, if it has one; `Taken.find` raises Refused for it.

        NB: once an attempt was kept out, entries that only await cleaning count, too. Until one of them is cleaned, or
        something is written, Hive 4 accepts no other entry beside it (CompactFunction), and a Job would be kept out
        again. Before that, a Job may find that there is nothing to do.
        """
        spec, ref = compaction.spec, compaction.spec.table
        entries = client.compactions(ref.database, ref.name)
        if taken := Taken.of(spec.warehouse, spec.queue_id):
            taken.find(ref, entries, type_=spec.type, partitions=partitions)
            return [one for one in entries if one.is_open and one.concerns(partitions) and not taken.is_held(one)]
        entries = tuple(entry for entry in entries if entry.concerns(partitions))
        busy = [entry for entry in entries if entry.is_open]
        if busy or not compaction.kept_out:
            return busy
        watermark = client.valid_write_ids(ref.database, ref.name).watermark
        return [entry for entry in entries if entry.awaits_cleaning and entry.highest_write_id == watermark]

    @_answering
    def end_attempt(self, compaction: Compaction) -> None:
        """End the compaction's current attempt, the only one that runs on its table; return the obstacle, if any.

        For a Hudi table the next attempt does this: it finds on the timeline what it may roll back or continue.
        NB: a warehouse that the configuration no longer has is an obstacle: half a pair may be published there (H3).
        """
        if not compaction.is_hudi:
            self._end(compaction.spec.warehouse, attempt_of(compaction), compaction.spec.table)

    @_answering
    def sweep(
        self,
        warehouse: str,
        known: Collection[str],
        journals: Sequence[Cleanup] = (),
        *,
        look_up: LookUp | None = None,
    ) -> None:
        """End the lost attempts of compactions with unknown UIDs; return the first obstacle, if any.

        `journals` are all known ones; a lost attempt's uploads are revoked before anything of it is ended. What lies
        out of sight is unknown, too: with `look_up` it tells the journals, and what it does not know is left alone.
        NB: in Hive 3 no attempt has uploads, and a lost one may have published half of a pair (hazard H3). So each is
        ended there, as the lock that hides the half ends by itself.

        Searches all locks of the metastore for them: a dead driver's lock remains for some minutes.
        """
        client, obstacles = self._client(warehouse), list[Exception]()
        if look_up is None:
            look_up = _always(journals)
        elif client.generation() is Generation.HIVE3:
            look_up = _always(())
        locks, txns = client.all_locks(), client.open_transactions().open
        for orphan in orphans(locks, txns, known=known, now=self._clock()):
            if not self._warehouse(warehouse).allows_database(orphan.table.database):
                continue
            if (left := look_up(orphan.attempt.uid)) is not None:
                try:
                    self._end_orphan(warehouse, orphan, left)
                except TROUBLES as error:
                    log.warning("attempt %s on %s is not ended: %s", orphan.attempt, orphan.table, error)
                    obstacles.append(error)
        if obstacles:
            raise obstacles[0]

    def _end_orphan(self, warehouse: str, orphan: Orphan, journals: Iterable[Cleanup]) -> None:
        """End a lost attempt. NB: those before it may have taken minutes, in which its driver went on."""
        if holdings(self._client(warehouse), orphan.attempt, orphan.table).silence(self._clock()) is None:
            return
        log.warning("ending attempt %s on %s: no compaction in sight has it", orphan.attempt, orphan.table)
        left = (one for one in journals if attempt_of(one) == orphan.attempt)
        self._revoke_uploads(self._open_storage(warehouse), left)
        self._end(warehouse, orphan.attempt, orphan.table)

    def _end(self, warehouse: str, attempt: Attempt, table: TableRef) -> None:
        """End an attempt in all partitions of its table: its own partitions may have been dropped."""
        client = self._client(warehouse)
        end_attempt(self._open_storage(warehouse), client, attempt, table, _targets(client, table))

    @_answering
    def held(self, resource: Compaction | Cleanup) -> Holdings:
        """Return what the metastore now holds for the attempt of a compaction or cleanup, or why that is unknown."""
        table = TableRef(database=resource.spec.table.database, name=resource.spec.table.name)
        return holdings(self._client(resource.spec.warehouse), attempt_of(resource), table)

    @_answering
    def settle(self, cleanup: Cleanup, *, driver_ended: bool, attempt: Sequence[Cleanup] = ()) -> Settlement:
        """End the attempt, compute what is published, then take the reader baseline.

        Without `driver_ended`, the metastore must show that the driver is not working on the cleanup's partitions.
        `attempt` are all known journals of the same attempt.
        NB: also where the configuration no longer allows the cleanup's reader rule: until it is settled it holds the
        table.
        """
        client, policy = self._client_for(cleanup), self._policy(cleanup)
        storage = self._open_storage(cleanup.spec.warehouse)
        lost = not driver_ended and is_lost(client, attempt_of(cleanup), cleanup.spec.table.ref(), self._clock())
        whole = driver_ended or lost
        if whole:
            self._revoke_uploads(storage, attempt)
        if lost:  # end it in all partitions, not only those of this journal
            self._end(cleanup.spec.warehouse, attempt_of(cleanup), cleanup.spec.table.ref())
        return settle(storage, client, cleanup.spec, whole=whole, policy=policy, clock=self._clock)

    def _revoke_uploads(self, storage: OpenStorage, journals: Iterable[Cleanup]) -> None:
        """Abort the uploads of journals. Each needs it once: a journal never changes."""
        for journal in journals:
            if not journal.settled and journal.meta.uid not in self._revoked:
                revoke_uploads(storage, journal.spec.partitions)
                self._revoked[journal.meta.uid] = None

    @_answering
    def survey(
        self,
        warehouse: str,
        spec: CompactionPolicySpec,
        memory: Memory,
        *,
        ended: Mapping[str, datetime],
        due: Collection[str],
    ) -> Memory:
        """Look at a warehouse's tables for a policy; see `Surveyor.look`."""
        client, storage = self._client(warehouse), self._open_storage(warehouse)
        return Surveyor(client, storage, self._warehouse(warehouse), spec, self._clock()).look(memory, ended, due)

    @_answering
    def held_in_queue(self, warehouse: str) -> tuple[QueueEntry, ...]:
        """Return the entries of the warehouse's pool that are worked on in the controller's name; see `Pool.held`."""
        return self._pool(warehouse).held()

    @_answering
    def take_from_queue(self, warehouse: str) -> QueueEntry | None:
        """Take the oldest initiated entry of the warehouse's pool, None if there is none; see `Pool.take`."""
        return self._pool(warehouse).take()

    @_answering
    def name_in_queue(self, warehouse: str, entry: QueueEntry, name: str) -> None:
        """Record in an entry the TableCompaction that works on it; return the obstacle, if any."""
        self._pool(warehouse).name(entry, name)

    @_answering
    def end_in_queue(self, warehouse: str, entry: QueueEntry, *, refused: bool, message: str) -> None:
        """End an entry that is worked on in the controller's name; return the obstacle, if any."""
        self._pool(warehouse).end(entry, refused=refused, message=message)

    def _pool(self, warehouse: str) -> Pool:
        return Pool(self._client(warehouse), self._warehouse(warehouse))

    def look(self, warehouse: str, tables: Sequence[TableKey]) -> Mapping[TableKey, ReaderSnapshot | Trouble]:
        """Return the current readers of each of a warehouse's tables, or why they are unknown.

        Queries the locks of each table, or all locks where these may show more; then all transactions.
        """
        refs = {TableRef(database=key.database, name=key.table): key for key in tables}
        try:
            own = Readers.LOCKS_AND_OWN_TRANSACTIONS in self._warehouse(warehouse).readers
            answers = look_at_all(self._client(warehouse), tuple(refs), all_locks=own)
        except MetastoreError as error:
            return dict.fromkeys(tables, _trouble(error))
        return {
            refs[ref]: _trouble(answer) if isinstance(answer, MetastoreError) else answer
            for ref, answer in answers.items()
        }

    @_answering
    def plan(self, cleanup: Cleanup, partitions: Sequence[PartitionEntry]) -> Deletions:
        """Return what a deletion pass over some of a cleanup's partitions would delete now, as `remaining`."""
        return self._pass(cleanup, partitions, plan_deletion)

    @_answering
    def delete(
        self, cleanup: Cleanup, partitions: Sequence[PartitionEntry], *, purge: bool, insist: bool = False
    ) -> Deletions:
        """Make one deletion pass over some of a cleanup's partitions.

        With `spec.quarantine` the pass moves names into the quarantine; with `purge` it deletes from there. With
        `insist` new readers wait for as long as earlier ones may still be listing.
        """
        policy = self._policy(cleanup).insisting() if insist else self._policy(cleanup)
        if cleanup.spec.quarantine is None:
            return self._recorded_pass(cleanup, partitions, partial(delete_obsolete, policy=policy))
        if purge:
            return self._recorded_pass(cleanup, partitions, partial(purge_quarantined, policy=policy), purge=True)
        known = {found.partition: found.quarantined for found in cleanup.status.partitions}
        return self._pass(cleanup, partitions, partial(quarantine_obsolete, known=known, policy=policy))

    def _policy(self, cleanup: Cleanup) -> LockPolicy:
        seen = self._seen[cleanup.spec.warehouse]
        shares = self._warehouse(cleanup.spec.warehouse).hiding_lock is HidingLock.SHARED_READ
        return LockPolicy(owner=cleanup.meta.uid, planning=self._config.cleanup.planning_time, shares=shares, seen=seen)

    @_answering
    def release(self, cleanup: Cleanup) -> None:
        """Release the locks that a cleanup's passes left; return the obstacle, if any.

        They are found by the cleanup's own agent name: an answer may have been lost, or the process killed.
        """
        Holding(self._client_for(cleanup), cleanup.spec, self._policy(cleanup)).give_back_left()

    @_answering
    def close_receipts(self, cleanup: Cleanup) -> None:
        """Write the receipts that a cleanup's passes still owe; return the obstacle, if any."""
        if book := self._book(cleanup.spec.warehouse):
            dropped = [found.partition for found in cleanup.status.partitions if found.message is not None]
            book.close(cleanup.meta.uid, dropped=dropped)

    @_answering
    def record(self, compaction: Compaction, *, ending: TableCompactionStatus) -> None:
        """Write the receipt of a compaction that is about to end, unless it is there; return the obstacle, if any."""
        if book := self._book(compaction.spec.warehouse):
            since = parse_time(ending.attempt_start_time or ending.start_time or rfc3339(compaction.meta.created))
            receipt = compaction_facts(compaction, ending)
            book.record(receipt, since=rfc3339(since - CLOCKS_DIFFER))

    @_answering
    def finish(self, cleanup: Cleanup) -> None:
        """End the attempt's entries in the metastore's compaction queue for all that was published and cleaned up.

        Returns the obstacle, if any.
        What stays for good, for whatever reason, is left to Hive's own Cleaner.
        """
        done = {found.partition for found in cleanup.status.partitions if found.message is None and not found.kept}
        entries = [entry for entry in cleanup.spec.partitions if entry.partition in done]
        finish(self._open_storage(cleanup.spec.warehouse), self._client_for(cleanup), cleanup.spec, entries)

    def _pass(
        self, cleanup: Cleanup, partitions: Sequence[PartitionEntry], visit: Callable[[JournalPass], Deletions]
    ) -> Deletions:
        return visit(self._given(cleanup, partitions))

    def _recorded_pass(
        self,
        cleanup: Cleanup,
        partitions: Sequence[PartitionEntry],
        visit: Callable[[JournalPass], Deletions],
        *,
        purge: bool = False,
    ) -> Deletions:
        """Make a pass that deletes. If the warehouse keeps receipts, they have what it deletes, whatever ends it."""
        given, book = self._given(cleanup, partitions), self._book(cleanup.spec.warehouse)
        if book is None:
            return visit(given)
        facts = deletion_facts(cleanup, self._clock())
        return book.recorded(partial(draft_of, given, receipt=facts, purge=purge), visit)

    def _given(self, cleanup: Cleanup, partitions: Sequence[PartitionEntry]) -> JournalPass:
        part = cleanup.spec.model_copy(update={"partitions": tuple(_without_kept(cleanup, partitions))})
        states = {found.partition: found.state for found in cleanup.status.partitions}
        self._require_readers(cleanup)
        client = self._client_for(cleanup)
        return JournalPass(self._open_storage(part.warehouse), client, part, states)

    def _book(self, warehouse: str) -> ReceiptBook | None:
        """Return the receipts of a warehouse, None if it keeps none."""
        receipts = self._warehouse(warehouse).receipts
        if receipts is None:
            return None
        with self._lock:
            known = self._books.get(warehouse)
        if known is not None:
            return known
        # NB: outside the lock, which all warehouses share: it connects to the store.
        storage = self._open_storage(warehouse)
        made = ReceiptBook(storage, receipts.location, now=lambda: rfc3339(self._clock()))
        with self._lock:
            return self._books.setdefault(warehouse, made)

    def _client(self, warehouse: str) -> MetastoreClient:
        known = self._warehouse(warehouse)
        with self._lock:
            if warehouse not in self._clients:
                self._clients[warehouse] = self._connect(known.metastore)
            return self._clients[warehouse]

    def _open_storage(self, warehouse: str) -> OpenStorage:
        """Return what opens the storage of a location with the settings of a warehouse."""
        known = self._warehouse(warehouse)
        with self._lock:
            if warehouse not in self._stores:
                self._stores[warehouse] = self._connect_stores(known)
            return self._stores[warehouse]

    def _warehouse(self, name: str) -> Warehouse:
        known = self._config.warehouse(name)
        if known is None:
            raise UnknownWarehouseError(f"unknown warehouse {name!r}; it is not in the operator's configuration")
        return known

    def _require_readers(self, cleanup: Cleanup) -> None:
        """Raise NotAllowedError if the warehouse does not, or no longer, allow the cleanup's reader rule."""
        refused = readers_refusal(cleanup.spec.readers, self._warehouse(cleanup.spec.warehouse))
        if refused is not None:
            raise NotAllowedError(refused)

    def _client_for(self, cleanup: Cleanup) -> MetastoreClient:
        """Return the metastore client of a cleanup. Raises NotAllowedError if its namespace may not clean up there."""
        spec, namespace = cleanup.spec, cleanup.meta.namespace
        client = self._client(spec.warehouse)
        if not may_use(cleanup, self._config):
            raise NotAllowedError(
                f"namespace {namespace} may not clean up database {spec.table.database} of warehouse {spec.warehouse}"
            )
        return client


def attempt_of(resource: Compaction | Cleanup) -> Attempt:
    """Return the current attempt of a compaction, or the one that wrote a cleanup's journal."""
    if isinstance(resource, Compaction):
        return Attempt(resource.meta.uid, resource.status.attempt)
    return Attempt(resource.spec.compaction.uid, resource.spec.compaction.attempt)


def _targets(client: MetastoreClient, table: TableRef) -> tuple[Target, ...]:
    """Return the table's directories, none if the table is gone."""
    try:
        return resolve(client, table, ()).targets
    except Refused as nothing_left:
        log.info("an attempt cannot have left anything: %s", nothing_left)
        return ()


def _automatic(client: MetastoreClient, table: Table) -> Automatic:
    found = auto_compaction(client, table)
    overridden = found.may_happen and not table.may_be_auto_compacted
    return Automatic(found, cleaner=cleaner_runs(client), overridden=overridden)


def _without_kept(cleanup: Cleanup, partitions: Iterable[PartitionEntry]) -> Iterator[PartitionEntry]:
    """Yield the entries without names that were once seen not to be obsolete: their readers were never recorded."""
    kept = {found.partition: found.kept for found in cleanup.status.partitions}
    for entry in partitions:
        obsolete = tuple(one for one in entry.obsolete if one.name not in kept.get(entry.partition, ()))
        yield entry.model_copy(update={"obsolete": obsolete})


def _always(journals: Sequence[Cleanup]) -> LookUp:
    return lambda _: journals


def _out_of_sight(table: TableRef, lock: LockInfo) -> str:
    """Say who works on a table. NB: where the whole cluster is watched, the cache knows of each such compaction."""
    return (
        f"another compaction works on {table}: lock {lock.lock_id} of {lock.user}@{lock.host}, {lock.agent}; "
        "it has ended, or is in a namespace that this operator does not see"
    )


def _in_queue(table: TableRef, busy: Iterable[QueueEntry]) -> str:
    """Name the entries. If all are compacted already, add what must happen first."""
    until = "" if any(entry.is_open for entry in busy) else "; wait until it is cleaned up, or something is written"
    return f"{say_queued(table, busy)}{until}"


def _trouble(error: Exception) -> Trouble:
    """Map an error to a Trouble, with a reason for the condition."""
    if isinstance(error, UnknownWarehouseError):
        return Trouble(Reason.UNKNOWN_WAREHOUSE, str(error))
    if isinstance(error, NotAllowedError):
        return Trouble(Reason.NOT_ALLOWED, str(error))
    if isinstance(error, ReceiptNotWrittenError):
        return Trouble("ReceiptNotWritten", str(error))
    if isinstance(error, MetastoreUnavailable):
        return Trouble(Reason.METASTORE_UNAVAILABLE, str(error))
    return Trouble(type(error).__name__, str(error))
