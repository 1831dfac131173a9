"""How far the driver is, added up over batches."""

from compaction_operator.api.progress import Progress
from compaction_operator.driver.progress import Meter


class Reports:
    """Keeps the reports, and separately those that are to be sent at once."""

    def __init__(self) -> None:
        self.told: list[Progress] = []
        self.at_once: list[Progress] = []

    def update(self, progress: Progress, *, at_once: bool = False) -> None:
        (self.at_once if at_once else self.told).append(progress)


def progress(done: int, total: int, bytes_done: int, bytes_total: int) -> Progress:
    return Progress(partitions_done=done, partitions_total=total, bytes_done=bytes_done, bytes_total=bytes_total)


def test_one_batch() -> None:
    """Bytes advance with the tasks, which may read delete events more than once; partitions when they are done."""
    reports = Reports()
    meter = Meter(reports, partitions=2)
    meter.begin(1000, partitions=2)
    meter.merged(done=600, total=2400)
    meter.partition_done()
    meter.merged(done=2400, total=2400)
    meter.partition_done()
    meter.end()
    assert reports.told == [
        progress(0, 2, 0, 1000),
        progress(0, 2, 250, 1000),
        progress(1, 2, 250, 1000),
        progress(1, 2, 1000, 1000),
        progress(2, 2, 1000, 1000),
    ]
    assert reports.at_once == [progress(2, 2, 1000, 1000)]


def test_batches_to_come_are_taken_for_average_ones() -> None:
    """So the percentage does not fall back to a half when the second of two batches begins; the end is exact."""
    reports = Reports()
    meter = Meter(reports, partitions=1000)
    meter.begin(4000, partitions=500)
    meter.merged(done=4, total=8)
    assert reports.told[-1] == progress(0, 1000, 2000, 8000)
    meter.merged(done=8, total=8)
    meter.begin(5000, partitions=500)
    assert reports.told[-1] == progress(0, 1000, 4000, 9000)
    meter.merged(done=7, total=7)
    assert reports.told[-1] == progress(0, 1000, 9000, 9000)


def test_a_batch_with_nothing_to_do() -> None:
    """No bytes, no tasks, and a table without partitions: nothing is divided by nought."""
    reports = Reports()
    meter = Meter(reports, partitions=0)
    meter.begin(0, partitions=0)
    meter.merged(done=0, total=0)
    meter.end()
    assert reports.at_once == [progress(0, 0, 0, 0)]
