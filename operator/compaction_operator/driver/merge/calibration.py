"""How fast this machine merges, compared with the one on which `cost` was measured."""

import logging
import tempfile
import time
from dataclasses import replace
from functools import cache
from math import inf
from pathlib import Path

from compaction_operator import orc
from compaction_operator.orc import MergeTask

log = logging.getLogger(__name__)

STORED = Path(__file__).with_name("cpu_factor")
"""Where the image's build stores what `compaction-operator calibrate` printed."""

REFERENCE_SECONDS = 0.0225
"""The CPU time of one small merge on the machine on which `cost` was measured."""

_ROUNDS = 3


@cache
def stored_factor() -> float:
    """Return the factor of the machine that built this image; 1 without an image.

    NB: no compaction fails for a file that cannot be read or holds no such number, because no data depends on it.
    """
    try:
        factor = float(STORED.read_text())
    except FileNotFoundError:
        return 1.0
    except (OSError, ValueError) as error:
        log.warning("%s: %s; build the image again", STORED, error)
        return 1.0
    if 0 < factor < inf:
        return factor
    log.warning("%s holds %s, which is no factor; build the image again", STORED, factor)
    return 1.0


@cache
def measured_factor() -> float:
    """Return the CPU time of a small merge here, divided by the reference machine's: by the fastest of a few rounds."""
    with tempfile.TemporaryDirectory() as folder:
        task = orc.sample_task(folder)
        return min(_merge_seconds(task, number) for number in range(_ROUNDS)) / REFERENCE_SECONDS


def _merge_seconds(task: MergeTask, number: int) -> float:
    begun = time.thread_time()
    own = replace(task, output=f"{task.output}{number}")
    orc.verify_output(own, orc.merge_bucket(own))
    return time.thread_time() - begun
