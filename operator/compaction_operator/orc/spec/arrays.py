"""Array types that the ORC modules share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Booleans = npt.NDArray[np.bool_]


def sums_before(counts: npt.NDArray[Any] | Sequence[int]) -> Integers:
    """Return the sum of the counts before each position, and their total at the end: offsets from lengths."""
    sums = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums
