"""Options of the compactions that a policy creates for Hudi tables."""

from collections.abc import Mapping

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.hudi import HudiOptions
from compaction_operator.api.policy import HudiTemplate, Thresholds
from compaction_operator.hudi import HudiTable
from compaction_operator.policy.thresholds import DELTA_COMMITS, LOG_BLOCKS

LOCK_KEY = "hoodie.write.lock.zookeeper.lock_key"
"""Table property of the writers that the operator takes over, as locks are by table."""


def hudi_options(
    template: HudiTemplate,
    table: HudiTable,
    thresholds: Thresholds,
    parameters: Mapping[str, str],
    type_: CompactionType,
) -> HudiOptions:
    """Return the options of a compaction of a type: those of the template, with what the table's owner says.

    NB: Hudi plans nothing below its own threshold, so the compaction has the one by which the table was due.
    """
    key = {LOCK_KEY: parameters[LOCK_KEY]} if LOCK_KEY in parameters else {}
    common = {"single_writer": template.single_writer, "bundle": template.bundle}
    if type_ is CompactionType.COMPACTION:
        options = {**template.options, **key, DELTA_COMMITS: str(thresholds.delta_commits)}
        return HudiOptions(options=options, clean=template.clean, archive=template.archive, **common)
    options = {**template.options, **key, LOG_BLOCKS: str(thresholds.log_blocks)}
    limit = None if table.numbers_log_files else template.max_log_file_size_to_merge
    return HudiOptions(options=options, max_log_file_size_to_merge=limit, **common)
