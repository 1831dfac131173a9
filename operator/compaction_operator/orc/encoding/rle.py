"""Decodes the run-length encodings of ORC streams (ORC specification, "Run Length Encoding").

All functions take the plain bytes of a stream and its exact number of values; any other number raises ValueError.
They count the values of the runs before they allocate memory for them.
"""

import sys

import numpy as np
import numpy.typing as npt

from compaction_operator.orc import kernels
from compaction_operator.orc.encoding.rle_version1 import Version1Decoder
from compaction_operator.orc.encoding.rle_version2 import Version2Decoder
from compaction_operator.orc.encoding.runs import check_end
from compaction_operator.orc.spec import Booleans, Integers


def decode_bytes(data: bytes, count: int) -> npt.NDArray[np.uint8]:
    """Return the values of a byte run-length stream."""
    if kernels.compiled:
        return np.frombuffer(kernels.compiled.decode_bytes(data, _size(count)), np.uint8)
    parts = []
    position = total = 0
    while position < len(data) and total < count:
        control = data[position]
        if control < 128:
            length = control + 3
            parts.append(data[position + 1 : position + 2] * length)
            position += 2
        else:
            length = 256 - control
            parts.append(data[position + 1 : position + 1 + length])
            position += 1 + length
        total += length
    check_end(data, position, count=count, total=total)
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def decode_booleans(data: bytes, count: int) -> Booleans:
    """Return the values of a boolean stream: bits, highest first, in a byte run-length stream."""
    packed = decode_bytes(data, (count + 7) // 8)
    return np.unpackbits(packed, count=count).view(np.bool_)


def decode_integers(data: bytes, count: int, *, signed: bool, version: int) -> Integers:
    """Return the values of an integer run-length stream of version 1 or 2.

    Unsigned values of 2**63 or more are returned negative, as in Java.
    """
    if kernels.compiled:
        return np.frombuffer(kernels.compiled.decode_integers(data, _size(count), signed, version), np.int64)
    decoder = Version1Decoder if version == 1 else Version2Decoder
    return decoder(data, signed).decode(count)


def split_varints(data: bytes, count: int) -> Integers:
    """Return the byte length of each base-128 number in `data`; the numbers may have any size."""
    if kernels.compiled:
        lengths = np.frombuffer(kernels.compiled.split_varints(data), np.int64)
    else:
        lengths = np.diff(np.flatnonzero(np.frombuffer(data, dtype=np.int8) >= 0), prepend=-1)
    if len(lengths) != count or (data and data[-1] >= 128):
        raise ValueError(f"a stream of {len(lengths)} numbers, not {count}")
    return lengths


def _size(count: int) -> int:
    """Return the count as a size that C can hold: a damaged file may promise more, and no stream has so many values."""
    return min(count, sys.maxsize)
