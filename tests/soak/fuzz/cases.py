"""Cases for the reader and the engine: a real file made worse somewhere, and the compaction that it is put into."""

import re
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from google.protobuf.message import DecodeError

from compaction_operator.orc import RowId
from compaction_operator.orc.merge.sketch import KEY_INDEX
from compaction_operator.orc.spec.messages import Kind, RowIndex, StreamKind, Type
from tests.soak.fuzz.mutate import damaged, mutate, number
from tests.soak.fuzz.parts import Part, Parts, close, ended, stripe_section, take_apart
from tests.soak.fuzz.seeds import Seed

_CHANGES = ["streams", "streams", "index", "rows", "stripe", "stripe", "metadata", "keys", "keys", "footer", "footer"]
_CHANGES += ["nesting", "postscript"]
_ROWS = (1 << 64) - 1
_DEPTHS = (3, 90, 150, 2000)
_MEMORY = (1 << 29, 1 << 29, 100_000)


@dataclass(frozen=True)
class Case:
    """A damaged file, what was done to it, and how it is compacted.

    `twin` is a sound file: delete events for one of rows, rows for one of delete events. With `copied` any stripe,
    however small, may be copied as it is. With `as_table` the row type is that of the sound file.
    """

    seed: Seed
    done: str
    content: bytes
    with_twin: bool
    copied: bool
    memory: int
    cut: RowId | None
    as_table: bool

    def __str__(self) -> str:
        return f"{self.seed.name}: {self.done}"


def make_case(random: Random, seeds: list[Seed]) -> Case:
    """Choose a file and do something to it."""
    seed = random.choice(seeds)
    content, done = worse(random, seed.path)
    return Case(
        seed=seed,
        done=done,
        content=content,
        with_twin=bool(random.randrange(2)),
        copied=bool(random.randrange(2)),
        memory=random.choice(_MEMORY),
        cut=_cut(random, seed),
        as_table=bool(random.randrange(2)),
    )


def _cut(random: Random, seed: Seed) -> RowId | None:
    """A key at which the bucket is cut into two tasks."""
    keys = seed.keys()
    return None if random.randrange(3) or not len(keys) else keys.row(random.randrange(len(keys)))


def worse(random: Random, path: Path) -> tuple[bytes, str]:
    """Return a file's bytes with some damage, and say which."""
    if random.randrange(4) == 0:
        content = path.read_bytes()
        for _ in range(random.choice([1, 1, 2, 5])):
            content = damaged(random, content)
        return content, "its bytes"
    return _rebuilt(random, deepcopy(_parts(path)))


@lru_cache(maxsize=512)
def _parts(path: Path) -> Parts:
    return take_apart(path)


def _rebuilt(random: Random, parts: Parts) -> tuple[bytes, str]:
    """The file put together again, with one to three changes on the way."""
    chosen = random.choices(_CHANGES, k=random.choice([1, 1, 2, 3]))
    done = [_change_stripe(random, parts, change) for change in chosen if parts.stripes]
    done += [_change_keys(random, parts) for change in chosen if change == "keys"]
    done += [f"metadata: {mutate(random, parts.metadata)}" for change in chosen if change == "metadata"]
    metadata = parts.metadata.SerializeToString()
    content = stripe_section(parts)
    done += [f"footer: {mutate(random, parts.footer)}" for change in chosen if change == "footer"]
    content = close(parts, content, parts.framed(metadata))
    done += [f"postscript: {mutate(random, parts.postscript)}" for change in chosen if change == "postscript"]
    return ended(content, parts.postscript), ", ".join(filter(None, done))


def _change_keys(random: Random, parts: Parts) -> str:
    """Change what the tail says of the keys in the stripes: by it, stripes are copied or left out unread."""
    bounds = [one.int_statistics for stripe in parts.metadata.stripe_stats for one in stripe.column_stats[1:6]]
    if random.randrange(2) and bounds:
        return f"statistics of keys: {mutate(random, random.choice(bounds))}"
    for item in parts.footer.metadata:
        if item.name == KEY_INDEX:
            numbers = [*re.finditer(rb"-?[0-9]+", item.value)]
            if numbers:
                place = random.choice(numbers)
                new = number(random, int(place[0]), -(1 << 63), (1 << 63) - 1)
                item.value = item.value[: place.start()] + str(new).encode() + item.value[place.end() :]
    return "key index"


def _change_stripe(random: Random, parts: Parts, change: str) -> str:
    part = random.choice(parts.stripes)
    match change:
        case "streams":
            return _change_stream(random, parts, part)
        case "index":
            return _change_index(random, parts, part)
        case "rows":
            part.rows = number(random, part.rows, 0, _ROWS)
            return f"{part.rows} rows"
        case "stripe":
            return f"stripe: {mutate(random, part.footer)}"
        case "nesting":
            return _nest(random, parts)
    return ""


def _change_stream(random: Random, parts: Parts, part: Part) -> str:
    if not part.streams:
        return ""
    place = random.randrange(len(part.streams))
    stream = part.footer.streams[place] if place < len(part.footer.streams) else None
    section = part.streams[place]
    whole = random.randrange(4) == 0
    section = damaged(random, section) if whole else parts.framed(damaged(random, _plain(parts, section)))
    part.streams[place] = section
    if stream is None:
        return "a stream"
    stream.length = len(section)
    return f"stream {stream.kind} of column {stream.column}"


def _plain(parts: Parts, section: bytes) -> bytes:
    try:
        return parts.plain(section)
    except ValueError:  # it was damaged before
        return section


def _change_index(random: Random, parts: Parts, part: Part) -> str:
    indexes = [
        (place, stream)
        for place, stream in enumerate(part.footer.streams)
        if stream.kind == StreamKind.ROW_INDEX and place < len(part.streams)
    ]
    if not indexes:
        return ""
    place, stream = random.choice(indexes)
    index = RowIndex()
    try:
        index.ParseFromString(_plain(parts, part.streams[place]))
    except (ValueError, DecodeError):
        return ""
    done = mutate(random, index)
    part.streams[place] = parts.framed(index.SerializeToString())
    stream.length = len(part.streams[place])
    return f"row index of column {stream.column}: {done}"


def _nest(random: Random, parts: Parts) -> str:
    """Put a column of lists of lists of ... into the last struct, without any streams."""
    types, depth = parts.footer.types, random.choice(_DEPTHS)
    structs = [type_ for type_ in types if type_.kind == Kind.STRUCT]
    if not structs:
        return ""
    structs[-1].subtypes.append(len(types))
    structs[-1].field_names.append("deep")
    kind = random.choice([Kind.LIST, Kind.STRUCT])
    for _ in range(depth):
        below: Any = {"subtypes": [len(types) + 1]}
        types.append(Type(kind=kind, field_names=["f"] if kind == Kind.STRUCT else [], **below))
    types.append(Type(kind=random.choice([Kind.INT, Kind.STRUCT, Kind.STRING])))
    for part in parts.stripes:
        for _ in range(depth + 1):
            part.footer.columns.add(kind=2)
    return f"{depth} types nested"


def sound_case(random: Random, seed: Seed) -> Case:
    """Choose how a file that is not damaged is compacted."""
    return replace(make_case(random, [seed]), done="nothing", content=seed.path.read_bytes())
