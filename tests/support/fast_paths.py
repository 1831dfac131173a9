"""The ways in which the engine may do the same work, and how a test forces each: the rows must not depend on them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from compaction_operator.driver.merge import buckets
from compaction_operator.orc import kernels
from compaction_operator.orc.encoding import integer_runs
from compaction_operator.orc.file import statistics
from compaction_operator.orc.merge import deletes, engine, forecast, keys, output

_HUGE = 1 << 62

Patch = tuple[Any, str, Any]
"""A module or class, the name of an attribute, and its value."""


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_: value


_NO_STRIPE_IS_SMALL: Patch = (engine, "COPY_ROWS", 0)
_SOME_STRIPES_ARE_SMALL: Patch = (engine, "COPY_ROWS", 100)
_NO_STRIPE_IS_COPIED: Patch = (engine, "can_copy", _always(False))

PATHS: Mapping[str, tuple[Patch, ...]] = {
    "usual": (),
    "python": ((kernels, "compiled", None),),
    "copied": (_NO_STRIPE_IS_SMALL,),
    "rewritten": (_NO_STRIPE_IS_COPIED,),
    "mixed": (_SOME_STRIPES_ARE_SMALL,),
    "joined": ((engine, "COPY_BYTES", _HUGE), (engine, "COPY_ROWS", _HUGE)),
    "apart": (_NO_STRIPE_IS_SMALL, _NO_STRIPE_IS_COPIED, (output, "JOINED_MEMORY", 1)),
    "general": (
        (integer_runs, "_runs", _always(None)),
        (kernels.compiled, "find_hits", _always(None)),
        (keys._Packing, "of", _always(None)),
        (statistics, "_small_decimals", _always(None)),
    ),
    "cut": (
        _SOME_STRIPES_ARE_SMALL,
        (buckets, "task_bytes", _always(2000)),
        (output, "STRIPE_BYTES", 2000),
        (deletes, "_MEMORY_PER_EVENT", 1 << 22),
        (forecast, "ENCODED_VALUES", 200),
    ),
}
"""What is patched for each path:

- "usual" is the engine as it is: all stripes of a small table are small, so they are joined.
- "python" does without the compiled kernels.
- "copied" copies each stripe that may be copied, and joins only stripes that overlap.
- "rewritten" copies no stripe.
- "mixed" joins small stripes and copies large ones, and small ones among these.
- "joined" joins all stripes that lie side by side, however large, up to the size of one in memory.
- "apart" rewrites each stripe that overlaps no other as a stripe of its own.
- "general" takes no short cut that only some numbers permit: runs of keys, keys as one number, short decimals.
- "cut" cuts buckets into tasks, stripes into pieces, and delete events into windows of some hundred. A
  plan encodes only some columns, and estimates the others.
"""


@contextmanager
def forced(path: str) -> Iterator[None]:
    """Let the engine take a path of PATHS."""
    with ExitStack() as stack:
        for owner, name, value in PATHS[path]:
            stack.enter_context(patch.object(owner, name, value))
        yield
