"""The driver pod's code: the flow of one compaction, the cutting of work into Spark tasks, and publication."""

from compaction_operator.driver.memory import keep_memory

keep_memory()
