"""A run of integers of which a few are much larger than the others (ORC specification, "Patched Base")."""

from itertools import pairwise

import numpy as np

from compaction_operator.orc.encoding.bit_packing import (
    Integers,
    Unsigned,
    any_width,
    code_of,
    pack,
    pack_few,
    width_of,
)

_PATCHED_BASE = 0x80
_LONGEST_GAP = 255
_LARGEST_BASE = 1 << 55
_WIDEST_PATCH = 56
"""Gap and patch together; Java's own writer goes to 64 bits, where its shifts need special cases."""


def patched_base(values: Integers) -> bytes | None:
    """Return up to 512 values as a run of this kind, or None when none of it, or no short one, is possible.

    The values' differences must not overflow.
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
    head = (_PATCHED_BASE << 8 | code_of(width) << 9 | len(values) - 1) << 16
    head |= (base_size - 1) << 13 | code_of(patch_width) << 8 | (gap_width - 1) << 5 | len(patches)
    signed_base = abs(base) | (base < 0) << (8 * base_size - 1)
    data = pack(offsets, np.array([len(values)]), width)
    entries = [gap << patch_width | patch for gap, patch in patches]
    listed = pack_few(entries, any_width(patch_width + gap_width))
    return head.to_bytes(4, "big") + signed_base.to_bytes(base_size, "big") + data + listed


def _width_of_most(offsets: Unsigned) -> int:
    """The width of all but a twentieth of the values, as Java's writer takes it.

    NB: a run has room for 31 patches; of 512 values at most 25 are left over, and two steps on the way to them.
    """
    largest = len(offsets) - 1 - len(offsets) // 20
    return int(width_of(np.partition(offsets, largest)[largest : largest + 1])[0])


def _patches(places: Integers, patches: list[int]) -> list[tuple[int, int]]:
    """The distance of each patch from the one before, and its bits; a long way is made in steps without bits."""
    found = []
    for (last, place), patch in zip(pairwise([0, *places.tolist()]), patches, strict=True):
        steps, gap = divmod(place - last, _LONGEST_GAP)
        found += [(_LONGEST_GAP, 0)] * steps + [(gap, patch)]
    return found
