"""Whether Hive compacts a table by itself: its Initiator puts into the queue what nobody asked for.

On Hive 3.1 its Worker takes no notice of a compaction that is not in the queue, so such a table has two compactors.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from compaction_operator.metastore.errors import MetastoreError, MetastoreUnavailable
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.tables import Table

NO_AUTO_COMPACTION = "no_auto_compaction"
INITIATOR_ON = "hive.compactor.initiator.on"
"""Both generations know it by this name; Hive 4 calls it metastore.compactor.initiator.on as well (MetastoreConf)."""
CLEANER_ON = "hive.compactor.cleaner.on"


class AutoCompaction(StrEnum):
    """What keeps Hive from compacting a table by itself, or that nothing does."""

    OFF_BY_TABLE = "OffByTable"
    OFF_BY_DATABASE = "OffByDatabase"
    INITIATOR_OFF = "InitiatorOff"
    ON = "On"
    UNKNOWN = "Unknown"
    """Nothing is set on table or database, and the metastore does not say whether its Initiator runs."""

    @property
    def may_happen(self) -> bool:
        """Whether Hive compacts the table by itself, as far as anybody can tell."""
        return self in (AutoCompaction.ON, AutoCompaction.UNKNOWN)


class SettingsSource(Protocol):
    """What is asked of the metastore's client."""

    def generation(self) -> Generation:
        """Return which protocol the metastore speaks."""
        ...

    def get_database(self, name: str, /) -> Mapping[str, str]:
        """Return the properties of a database."""
        ...

    def get_config_value(self, name: str, default: str, /) -> str:
        """Return a setting of the metastore."""
        ...


def auto_compaction(client: SettingsSource, table: Table) -> AutoCompaction:
    """Return whether Hive's Initiator looks after a table; raises MetastoreUnavailable, or MetastoreError.

    Hive 3.1 asks the table alone (Initiator.noAutoCompactSet). On Hive 4 what the database says, either way, comes
    before the table (MetaStoreUtils.isNoAutoCompactSet). NB: the Initiator's setting is that of the metastore which
    answers; where several serve one database, it has to be the same in all.
    """
    of_database = None if client.generation() is Generation.HIVE3 else _marked(client.get_database(table.database))
    if of_database:
        return AutoCompaction.OFF_BY_DATABASE
    if of_database is None and _marked(table.parameters):
        return AutoCompaction.OFF_BY_TABLE
    return _by_initiator(client)


def _marked(parameters: Mapping[str, str]) -> bool | None:
    """Return what the property says, None where it is not set; Hive takes its key in upper case, too."""
    value = parameters.get(NO_AUTO_COMPACTION)
    value = parameters.get(NO_AUTO_COMPACTION.upper()) if value is None else value
    return None if value is None else value.lower() == "true"


def cleaner_runs(client: SettingsSource) -> bool | None:
    """Return whether Hive's own Cleaner deletes what compactions of the queue make obsolete; raises as above.

    None where the metastore does not say: that of Hive 3.1 has no such setting (MetastoreConf).
    """
    return _switch(client, CLEANER_ON)


def _by_initiator(client: SettingsSource) -> AutoCompaction:
    found = {True: AutoCompaction.ON, False: AutoCompaction.INITIATOR_OFF, None: AutoCompaction.UNKNOWN}
    return found[_switch(client, INITIATOR_ON)]


def _switch(client: SettingsSource, name: str) -> bool | None:
    try:
        value = client.get_config_value(name, "")
    except MetastoreUnavailable:
        raise
    except MetastoreError:
        return None
    return {"true": True, "false": False}.get(value.strip().lower())
