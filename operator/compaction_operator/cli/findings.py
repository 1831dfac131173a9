"""What `doctor` finds: the end of each check, with what to change."""

from dataclasses import dataclass
from enum import StrEnum

from compaction_operator.api.model import ReadModel


class Level(StrEnum):
    """How a check ended. INFO: it was not made, as is usual, and a user may make it elsewhere."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    FAILED = "failed"

    @classmethod
    def _missing_(cls, _value: object) -> "Level":
        """Return WARNING for a level of a controller that is newer than this command line."""
        return cls.WARNING


class Subject(StrEnum):
    """What a check is about."""

    METASTORE = "metastore"
    SETTINGS = "settings"
    STORAGE = "storage"
    RIGHTS = "rights"
    NAMESPACE = "namespace"


class Finding(ReadModel):
    """The end of one check; `change` says what to do, and is empty where nothing is to be done.

    `warehouse` is empty for what concerns all of them.
    """

    warehouse: str = ""
    subject: Subject
    level: Level
    message: str
    change: str = ""


@dataclass(frozen=True)
class Report:
    """Makes the findings about one subject."""

    subject: Subject
    warehouse: str = ""

    def ok(self, message: str) -> Finding:
        """Return that a check found nothing wrong."""
        return self.found(Level.OK, message)

    def failed(self, message: str, change: str) -> Finding:
        """Return what a check found, and what to change."""
        return self.found(Level.FAILED, message, change)

    def found(self, level: Level, message: str, change: str = "") -> Finding:
        """Return the end of a check; its message becomes one line."""
        line = " ".join(message.split())
        return Finding(warehouse=self.warehouse, subject=self.subject, level=level, message=line, change=change)
