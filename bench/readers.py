"""Readers of ORC files in one warm process: `python -m bench.readers`; asked by `bench.reading`."""

from pyarrow import orc

from bench.engine.processes import cpu_of
from bench.engine.serve import Answer, own_cpu, serve
from bench.engine.spark_plan import session


class Readers:
    """pyarrow, and a Spark session with its JVM; both read all columns of all rows on one core."""

    def __init__(self) -> None:
        self._spark, self._jvm = session()

    def handle(self, request: Answer) -> Answer:
        """Read `files` once with the reader of that name; the answer is the CPU seconds that it took."""
        began = self._cpu()
        read = {"pyarrow": _read_with_arrow, "spark": self._read_with_spark}[request["reader"]]
        read(request["files"])
        return {"cpu_s": self._cpu() - began}

    def _read_with_spark(self, files: list[str]) -> None:
        self._spark.read.orc(files).write.format("noop").mode("overwrite").save()

    def _cpu(self) -> float:
        return own_cpu() + cpu_of(self._jvm)


def _read_with_arrow(files: list[str]) -> None:
    for file in files:
        source = orc.ORCFile(file)
        for stripe in range(source.nstripes):
            source.read_stripe(stripe)


if __name__ == "__main__":
    serve(Readers().handle)
