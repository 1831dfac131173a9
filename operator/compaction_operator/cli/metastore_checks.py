"""Checks of metastores: do they answer, may the principal list and lock, which of their settings endanger tables."""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from compaction_operator.api.config import Metastore, Warehouse
from compaction_operator.api.model import counted
from compaction_operator.cli.findings import Finding, Level, Report, Subject
from compaction_operator.metastore import (
    Generation,
    LockKind,
    LockWish,
    MetastoreClient,
    MetastoreError,
    MetastoreUnavailable,
)
from compaction_operator.metastore.initiator import CLEANER_ON, INITIATOR_ON

Connect = Callable[[Metastore], MetastoreClient]
Verdict = tuple[Level, str, str]
"""Level, message, and what to change."""

AGENT = "compaction-operator doctor"
LEAST_TXN_TIMEOUT = 180.0
"""Seconds. docs/safety.md says why: a lost driver's lock must outlive it by so much."""

TXN_TIMEOUT = "hive.txn.timeout"
HOUSEKEEPING_ON = "metastore.housekeeping.threads.on"
TASKS = "metastore.task.threads.always"
BY_WRITE_ID = "metastore.txn.use.minhistorywriteid"
SETTINGS = (INITIATOR_ON, CLEANER_ON, TXN_TIMEOUT, HOUSEKEEPING_ON, TASKS, BY_WRITE_ID)
_HOUSEKEEPER = "AcidHouseKeeperService"
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_UNREACHABLE = "check the warehouse's metastore settings and login, and that this pod reaches the metastore's port"


def check_metastores(warehouse: Warehouse, connect: Connect = MetastoreClient) -> Iterator[Finding]:
    """Yield the findings about each metastore of a warehouse. It takes one shared lock, and releases it at once."""
    report = Report(Subject.METASTORE, warehouse.name)
    database = warehouse.databases[0] if warehouse.databases else "default"
    for uri in warehouse.metastore.uris:
        only = warehouse.metastore.model_copy(update={"uris": (uri,)})
        try:
            with connect(only) as client:
                yield report.ok(f"{uri} answers as {client.generation()}")
                yield _tried(report, "list", partial(_list, client))
                yield _tried(report, "lock", partial(_lock, client, database))
                yield from _settings(client, warehouse)
        except MetastoreError as error:
            yield report.failed(f"{uri}: {error}", _UNREACHABLE)


def _tried(report: Report, what: str, call: Callable[[], str]) -> Finding:
    try:
        return report.ok(f"the principal may {what}: {call()}")
    except MetastoreUnavailable:
        raise
    except MetastoreError as error:
        change = f"give the operator's principal the right to {what} in the metastore"
        return report.failed(f"the principal may not {what}: {error}", change)


def _list(client: MetastoreClient) -> str:
    tables, locks = len(client.managed_tables()), len(client.all_locks())
    transactions = len(client.open_transactions().open)
    counts = (counted(tables, "managed table"), counted(locks, "lock"), counted(transactions, "open transaction"))
    return ", ".join(counts)


def _lock(client: MetastoreClient, database: str) -> str:
    """Take and release a shared lock. NB: on a table that does not exist, for which no client waits.

    It is released by what the metastore lists: the answer to the request may be lost, or the program interrupted.
    """
    table = f"_compaction_probe_{uuid.uuid4().hex}"
    try:
        client.lock(LockWish(database=database, table=table, kind=LockKind.SHARED_READ, agent=AGENT))
    finally:
        for lock in client.show_locks(database, table):
            if lock.table == table:
                client.unlock(lock.lock_id)
    return f"a shared lock in database {database}, which is released"


def _settings(client: MetastoreClient, warehouse: Warehouse) -> Iterator[Finding]:
    report = Report(Subject.SETTINGS, warehouse.name)
    values = {name: _value(client, name) for name in SETTINGS}
    for verdict in judge(client.generation(), values):
        yield report.found(*verdict)


def _value(client: MetastoreClient, name: str) -> str:
    """Return a setting; empty if the metastore does not know it, or withholds it."""
    try:
        return client.get_config_value(name, "").strip()
    except MetastoreUnavailable:
        raise
    except MetastoreError:
        return ""


def judge(generation: Generation, values: Mapping[str, str]) -> Iterator[Verdict]:
    """Yield what a metastore's settings mean for tables, by docs/safety.md and docs/plan.md. Pure."""
    yield _timeout(values[TXN_TIMEOUT])
    yield _housekeeping(generation, values)
    yield _initiator(generation, _switch(values[INITIATOR_ON]))
    if generation is Generation.HIVE4:
        yield _cleaner(_switch(values[CLEANER_ON]), by_write_id=_switch(values[BY_WRITE_ID]))


def _timeout(value: str) -> Verdict:
    seconds = _duration(value)
    if seconds is None:
        message = f"{TXN_TIMEOUT} is unknown: the metastore says {value!r}"
        return Level.WARNING, message, f"check that {TXN_TIMEOUT} is at least {LEAST_TXN_TIMEOUT:g} seconds"
    if seconds < LEAST_TXN_TIMEOUT:
        change = f"set {TXN_TIMEOUT} to at least {LEAST_TXN_TIMEOUT:g} seconds in each metastore; Hive's default is 300"
        return Level.FAILED, f"{TXN_TIMEOUT} is {value}: a lost driver's locks end too early", change
    return Level.OK, f"{TXN_TIMEOUT} is {value}", ""


def _housekeeping(generation: Generation, values: Mapping[str, str]) -> Verdict:
    """NB: of several metastores, one that runs it is enough, and on Hive 3.1 it comes with the Initiator."""
    switch = INITIATOR_ON if generation is Generation.HIVE3 else HOUSEKEEPING_ON
    if _switch(values[switch]) or _HOUSEKEEPER in values[TASKS]:
        return Level.OK, "the housekeeping runs, which ends the locks of dead clients", ""
    message = f"no housekeeping runs here ({switch}): locks of dead clients never end, and cleanups wait for them"
    return Level.WARNING, message, f"set {switch}=true in one metastore, unless it is so in another"


def _initiator(generation: Generation, on: bool | None) -> Verdict:
    if on is False:
        return Level.OK, "Hive's Initiator is off: Hive compacts no table by itself", ""
    if generation is Generation.HIVE4:
        return Level.OK, "Hive's Initiator may be on: the compaction queue admits one compactor of a table", ""
    known = "is on" if on else "may be on"
    message = f"Hive's Initiator {known}: beside Hive's Worker, rows of a table may count twice"
    change = "set NO_AUTO_COMPACTION on each table that the operator compacts, and never allowAutoCompaction"
    return Level.WARNING, message, change


def _cleaner(on: bool | None, *, by_write_id: bool | None) -> Verdict:
    if on is False:
        return Level.OK, "Hive's Cleaner is off and leaves obsolete directories to CompactionCleanups", ""
    known = "is on" if on else "may be on"
    if by_write_id:
        message = f"Hive's Cleaner {known} with {BY_WRITE_ID}: it deletes directories that queries still read"
        return Level.FAILED, message, f"set {BY_WRITE_ID}=false in each metastore, or {CLEANER_ON}=false"
    message = f"Hive's Cleaner {known}: it ignores grace period, approval and quarantine"
    change = f"set {CLEANER_ON}=false in each metastore, or NO_CLEANUP on tables for which that matters"
    return Level.WARNING, message, change


def _switch(value: str) -> bool | None:
    return {"true": True, "false": False}.get(value.lower())


def _duration(value: str) -> float | None:
    """Return the seconds of one of Hive's times, such as `300s`, `5min` or `300`; None for anything else."""
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", value.lower())
    if found is None:
        return None
    number, unit = found.groups()
    known = next((one for one in ("ms", "us", "ns", "d", "h", "m", "s") if unit.startswith(one)), unit)
    return float(number) * _SECONDS[known] if known in _SECONDS else None
