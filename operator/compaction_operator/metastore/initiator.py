"""Detection of Hive's automatic compaction: the Initiator enqueues compactions on its own.

On Hive 3.1, Hive's Worker ignores compactions that are not in the queue. Such a table therefore has two compactors.
"""

from collections.abc import Mapping
from enum import StrEnum

from compaction_operator.metastore.errors import MetastoreError, MetastoreUnavailable
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.interface import SettingsCalls
from compaction_operator.metastore.tables import Table

NO_AUTO_COMPACTION = "no_auto_compaction"
INITIATOR_ON = "hive.compactor.initiator.on"
"""Both generations know this name. Hive 4 also calls it metastore.compactor.initiator.on (MetastoreConf)."""
CLEANER_ON = "hive.compactor.cleaner.on"


class AutoCompaction(StrEnum):
    """Whether Hive may compact a table automatically, and what prevents it."""

    OFF_BY_TABLE = "OffByTable"
    OFF_BY_DATABASE = "OffByDatabase"
    INITIATOR_OFF = "InitiatorOff"
    ON = "On"
    UNKNOWN = "Unknown"
    """Neither table nor database sets it, and the metastore does not report whether its Initiator runs."""

    @property
    def may_happen(self) -> bool:
        """Whether Hive may compact the table automatically. True if unknown."""
        return self in (AutoCompaction.ON, AutoCompaction.UNKNOWN)


def auto_compaction(client: SettingsCalls, table: Table) -> AutoCompaction:
    """Return whether Hive's Initiator may compact a table. Raises MetastoreUnavailable or MetastoreError.

    Hive 3.1 checks only the table (Initiator.noAutoCompactSet). On Hive 4 the database's property, true or false,
    overrides the table's (MetaStoreUtils.isNoAutoCompactSet).
    NB: the Initiator's setting is that of the metastore which answers. If several metastores serve one database, they
    must have the same setting.
    """
    of_database = None if client.generation() is Generation.HIVE3 else _marked(client.get_database(table.database))
    if of_database:
        return AutoCompaction.OFF_BY_DATABASE
    if of_database is None and _marked(table.parameters):
        return AutoCompaction.OFF_BY_TABLE
    found = {True: AutoCompaction.ON, False: AutoCompaction.INITIATOR_OFF, None: AutoCompaction.UNKNOWN}
    return found[_switch(client, INITIATOR_ON)]


def _marked(parameters: Mapping[str, str]) -> bool | None:
    """Return the property's value, or None if it is not set. Hive also accepts the key in upper case."""
    value = parameters.get(NO_AUTO_COMPACTION)
    value = parameters.get(NO_AUTO_COMPACTION.upper()) if value is None else value
    return None if value is None else value.lower() == "true"


def cleaner_runs(client: SettingsCalls) -> bool | None:
    """Return whether Hive's own Cleaner deletes what queued compactions make obsolete.

    None if the metastore does not report it: Hive 3.1 has no such setting (MetastoreConf). Raises as
    `auto_compaction` does.
    """
    return _switch(client, CLEANER_ON)


def _switch(client: SettingsCalls, name: str) -> bool | None:
    try:
        value = client.get_config_value(name, "")
    except MetastoreUnavailable:
        raise
    except MetastoreError:
        return None
    return {"true": True, "false": False}.get(value.strip().lower())
