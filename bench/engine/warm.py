"""The engine in a process that stays warm: `python -m bench.engine.warm`; verification included.

NB: it imports the engine itself, which the driver loads only when it is used: the idle interpreter is one that has it.
"""

from importlib import import_module

from bench.engine.serve import Answer, measured, own_cpu, peak_rss_mb, serve
from compaction_operator.acid.plan import Layout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.driver.merge.partition import Request
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.driver.offline import compact_directory


def handle(request: Answer) -> Answer:
    """Compact the directory of a request in place; without one, say what the idle interpreter has used so far."""
    if "table" not in request:
        return {"cpu_s": own_cpu(), "wall_s": 0.0, "peak_rss_mb": peak_rss_mb("self")}
    write_ids = ValidWriteIdList.parse(request["write_ids"])
    asked = Request(type=CompactionType(request["type"]), layout=Layout.HIVE3, row_type=request["row_type"])
    with measured() as figures:
        compact_directory(request["table"], write_ids=write_ids, request=asked, runner=LocalRunner())
    return figures


if __name__ == "__main__":
    import_module("compaction_operator.orc.merge.engine")
    serve(handle)
