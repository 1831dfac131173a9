"""What a policy asks the process that forecasts compactions, and its answers: one JSON object in a line for each."""

from compaction_operator.api.compaction import CompactionType, Forecast, TableRef
from compaction_operator.api.config import Warehouse
from compaction_operator.api.model import Model


class ForecastQuestion(Model):
    """A compaction of some partitions of a Hive table, by specs that select one each; '' is an unpartitioned table."""

    table: TableRef
    type: CompactionType
    partitions: tuple[str, ...]


class ForecastRequest(Model):
    """Questions about tables of one warehouse, in their order.

    `root` is the folder that stands for `/` in the paths of the warehouse's volume. `memory` are the bytes that the
    process may use beside what it has after its start.
    """

    warehouse: Warehouse
    root: str
    memory: int
    questions: tuple[ForecastQuestion, ...]


class PartitionForecast(Model):
    """What a compaction of a partition, by its name, would do now, or why it would be refused.

    Without both, it would write nothing.
    """

    partition: str
    forecast: Forecast | None = None
    problem: str | None = None


class ForecastAnswer(Model):
    """The partitions of one question, or why there is none of them."""

    partitions: tuple[PartitionForecast, ...] = ()
    problem: str | None = None
