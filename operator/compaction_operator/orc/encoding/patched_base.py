"""Encodes runs in which a few integers are much larger than the others (ORC specification, "Patched Base")."""

from itertools import pairwise

import numpy as np

from compaction_operator.orc.encoding.bit_packing import CODES, any_width, pack, pack_few, width_of
from compaction_operator.orc.spec import Integers, Words

_PATCHED_BASE = 0x80
_LONGEST_GAP = 255
_LARGEST_BASE = 1 << 55
_WIDEST_PATCH = 56
"""The limit for gap and patch together. Java's writer allows 64 bits, where its shifts need special cases."""


def patched_base(values: Integers) -> bytes | None:
    """Return up to 512 values as a patched run, or None if the values do not permit one.

    The differences of the values must not overflow.
    """
    base = int(values.min())
    offsets = (values - base).view(np.uint64)
    width = _width_of_most(offsets)
    places = np.flatnonzero(offsets >> np.uint64(width))
    if not len(places) or abs(base) >= _LARGEST_BASE:
        return None
    patches = _patches(places, (offsets[places] >> np.uint64(width)).tolist())
    patch_width = any_width(max(patch for _, patch in patches).bit_length())
    gap_width = max(1, max(gap for gap, _ in patches).bit_length())
    if patch_width + gap_width > _WIDEST_PATCH:
        return None
    base_size = abs(base).bit_length() // 8 + 1
    head = (_PATCHED_BASE << 8 | CODES[width] << 9 | len(values) - 1) << 16
    head |= (base_size - 1) << 13 | CODES[patch_width] << 8 | (gap_width - 1) << 5 | len(patches)
    signed_base = abs(base) | (base < 0) << (8 * base_size - 1)
    data = pack(offsets, np.array([len(values)]), width)
    entries = [gap << patch_width | patch for gap, patch in patches]
    listed = pack_few(entries, any_width(patch_width + gap_width))
    return head.to_bytes(4, "big") + signed_base.to_bytes(base_size, "big") + data + listed


def _width_of_most(offsets: Words) -> int:
    """Return the width that fits all values except the largest twentieth, as Java's writer does.

    NB: a run has room for 31 patches. Of 512 values at most 25 need one, plus two steps without bits between them.
    """
    largest = len(offsets) - 1 - len(offsets) // 20
    return int(width_of(np.partition(offsets, largest)[largest : largest + 1])[0])


def _patches(places: Integers, patches: list[int]) -> list[tuple[int, int]]:
    """Return (gap, bits) of each patch; the gap counts from the patch before. A long gap gets steps without bits."""
    found = []
    for (last, place), patch in zip(pairwise([0, *places.tolist()]), patches, strict=True):
        steps, gap = divmod(place - last, _LONGEST_GAP)
        found += [(_LONGEST_GAP, 0)] * steps + [(gap, patch)]
    return found
