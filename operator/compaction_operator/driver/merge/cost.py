"""The CPU time of tasks whose work is known: a sum of a few parts, fitted to random tables. Pure.

`python -m bench.forecast` shows how well it fits. Take the numbers again, and `REFERENCE_SECONDS` of `calibration` with
them, after a change of the engine's speed.
"""

from compaction_operator.orc import MergeForecast

TASK_SECONDS = 0.0033
"""To begin a task, and to write, flush and verify a file without stripes."""

FILE_SECONDS = 0.00022
"""To open an input, and to read its tail and its keys."""

READ_SECONDS = 3.0e-5
"""For each column of an input's stripe: its statistics, and its streams in the stripe's footer."""

BUILT_SECONDS = 1.8e-4
"""For each column of a stripe that is built, whatever is in it: its index and its statistics."""

COMPRESSED_SECONDS = 1.2e-4
"""What the frames of such a column add, with any codec."""

FILTERED_SECONDS = 1.1e-4
"""For each column of an input's stripe that loses rows: it is decoded, and the rows that stay are selected."""

EMPTY_SHARE = 0.3
"""So much of that takes a column without values, as delete events have beside their keys."""

COPIED_SECONDS = 6.0e-10
"""For each byte of stripes that are copied and verified."""

DEFLATED_SECONDS = 3.6e-9
"""For each stored byte that is inflated and deflated again."""

VALUE_SECONDS = 9.7e-9
"""For each value that is decoded, selected and encoded, keys included."""

TEXT_SECONDS = 2.8e-8
"""For each text, whatever its length."""

TEXT_BYTE_SECONDS = 7.8e-10
"""For each byte of texts."""

TEXT_BYTE_COMPRESSED_SECONDS = 3.0e-9
"""What a codec adds to that: it compresses texts as they are, and numbers once they are packed."""

REMOVED_SECONDS = 2.5e-7
"""For each row that goes: it interrupts the runs of its neighbours."""

EVENT_SECONDS = 9.4e-8
"""For each delete event that is read and applied."""


def cpu_seconds(work: MergeForecast, *, tasks: int) -> float:
    """Return the reference machine's CPU seconds for a bucket's work by that many tasks.

    To join the parts of several tasks is to copy all that they wrote.
    """
    stitched = work.bytes_copied + work.bytes_rewritten if tasks > 1 else 0
    return (
        tasks * TASK_SECONDS
        + work.files * FILE_SECONDS
        + work.columns_read * READ_SECONDS
        + (work.columns_rewritten + work.columns_empty * EMPTY_SHARE) * BUILT_SECONDS
        + work.columns_compressed * COMPRESSED_SECONDS
        + work.columns_filtered * FILTERED_SECONDS
        + (work.bytes_copied + stitched) * COPIED_SECONDS
        + work.bytes_deflated * DEFLATED_SECONDS
        + work.values_rewritten * VALUE_SECONDS
        + work.texts_rewritten * TEXT_SECONDS
        + work.text_bytes * TEXT_BYTE_SECONDS
        + work.text_bytes_compressed * TEXT_BYTE_COMPRESSED_SECONDS
        + work.rows_removed * REMOVED_SECONDS
        + work.delete_events * EVENT_SECONDS
    )
