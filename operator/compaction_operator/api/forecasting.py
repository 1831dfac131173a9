"""What a policy asks the process that forecasts compactions, and its answers: one JSON object in a line for each."""

from compaction_operator.api.compaction import CompactionType, Forecast, TableRef
from compaction_operator.api.config import Warehouse
from compaction_operator.api.model import Model


class ForecastQuestion(Model):
    """A compaction of one partition of a Hive table, by its name in the metastore; '' is an unpartitioned table."""

    table: TableRef
    type: CompactionType
    partition: str


class ForecastRequest(Model):
    """Questions about tables of one warehouse, in their order.

    `root` is the folder that stands for `/` in the paths of the warehouse's volume. `memory` are the bytes that the
    process may use beside what it has after its start, and `seconds` its longest life.
    """

    warehouse: Warehouse
    root: str
    memory: int
    seconds: int
    questions: tuple[ForecastQuestion, ...]


class ForecastAnswer(Model):
    """What the compaction of one question would do now, or why there is no forecast of it."""

    forecast: Forecast | None = None
    problem: str | None = None
