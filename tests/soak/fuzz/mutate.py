"""Numbers, bytes, texts and protobuf messages made worse, by the choices of a `random.Random`."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

_EDGES = [bit + near for power in (7, 8, 15, 16, 31, 32, 53, 60, 63, 64) for bit in [1 << power] for near in (-1, 0, 1)]
_RANGES = {
    FieldDescriptor.TYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_FIXED64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_SINT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_SINT64: (-(1 << 63), (1 << 63) - 1),
}
_DOUBLES = [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324]
_TEXTS = [
    "",
    "_col0",
    "operation",
    "row",
    "UTC",
    "Asia/Kolkata",
    "../../etc/passwd",
    "two\nlines",
    "ä\0",
    "x" * 3000,
    "ORC",
]
_BYTES = [b"", b"\xff\xfe\xfd", b"\n", b"\0", bytes(600), b"1,536870912,0;", b"9223372036854775807,536870912,0;"]
_MANY = 3000


def number(random: Random, old: int, low: int, high: int) -> int:
    """Another number of a range: near the old one, extreme, small or any."""
    match random.randrange(4):
        case 0:
            found = old + random.choice([-2, -1, 1, 2, old, -old])
        case 1:
            found = random.choice(_EDGES) * random.choice([1, -1])
        case 2:
            found = random.randrange(20)
        case _:
            found = random.randrange(low, high + 1)
    return min(high, max(low, found))


def damaged(random: Random, data: bytes) -> bytes:  # noqa: PLR0911 - one for each kind of damage
    """Return the data with some bytes changed, lost, doubled or added."""
    start = random.randrange(len(data) + 1)
    length = min(len(data) - start, random.choice([1, 1, 1, 2, 4, 16, 100, len(data)]))
    before, middle, behind = data[:start], data[start : start + length], data[start + length :]
    match random.randrange(7):
        case 0:
            return before
        case 1:
            return before + behind
        case 2:
            return before + middle * random.choice([2, 2, 3, 50]) + behind
        case 3:
            return before + random.randbytes(random.choice([1, 2, 8, 64])) + middle + behind
        case 4:
            return before + random.randbytes(min(length, 64)) + middle[64:] + behind
        case 5:
            return before + bytes([random.choice([0, 0xFF, 0x80, 0x7F])]) * length + behind
        case _:
            return before + bytes(byte ^ 1 << random.randrange(8) for byte in middle[:1]) + middle[1:] + behind


def mutate(random: Random, message: Any) -> str:
    """Change one field of a message or of one inside it, and say which."""
    if random.randrange(12) == 0:
        return _damage(random, message)
    chosen = random.choice(list(_inside(message)))
    field = random.choice(chosen.DESCRIPTOR.fields)
    if field.is_repeated:
        _mutate_list(random, chosen, field)
    elif random.randrange(5) == 0 and chosen.HasField(field.name):
        chosen.ClearField(field.name)
    elif field.message_type:
        getattr(chosen, field.name).SetInParent()
    else:
        setattr(chosen, field.name, _scalar(random, field, getattr(chosen, field.name)))
    return f"{chosen.DESCRIPTOR.name}.{field.name}"


def _inside(message: Any) -> Iterator[Any]:
    """The message and all inside it; of long lists a few members, so that each kind has its chance."""
    yield message
    for field, value in message.ListFields():
        if field.message_type:
            members = list(value) if field.is_repeated else [value]
            for member in members[:4] + members[4:][-4:]:
                yield from _inside(member)


def _damage(random: Random, message: Any) -> str:
    """Change the bytes that a message is written as: what they then mean is the parser's affair."""
    try:
        message.ParseFromString(damaged(random, message.SerializeToString()))
    except DecodeError:
        return f"{message.DESCRIPTOR.name}, which no longer parses"
    return f"the bytes of {message.DESCRIPTOR.name}"


def _mutate_list(random: Random, message: Any, field: FieldDescriptor) -> None:
    values = list(getattr(message, field.name))
    changed = _changed_list(random, values, _member(random, field, values))
    copies = [_copy(value) for value in changed]
    message.ClearField(field.name)
    getattr(message, field.name).extend(copies)


def _copy(value: Any) -> Any:
    return type(value).FromString(value.SerializeToString()) if hasattr(value, "SerializeToString") else value


def _member(random: Random, field: FieldDescriptor, values: Sequence[Any]) -> Any:
    """Something new for a list."""
    if not field.message_type:
        return _scalar(random, field, random.choice(values) if values else field.default_value or 0)
    if not values:
        return message_factory.GetMessageClass(field.message_type)()
    member = _copy(random.choice(values))
    mutate(random, member)
    return member


def _changed_list(random: Random, values: list[Any], new: Any) -> list[Any]:
    place = random.randrange(len(values) + 1)
    match random.randrange(7):
        case 0:
            return values[:place] + values[place + 1 :]
        case 1:
            return values[:place]
        case 2:
            return values[:place] + values[place : place + 1] * 2 + values[place + 1 :]
        case 3:
            return values + [new] * random.choice([1, 1, 1, _MANY])
        case 4:
            return values[::-1]
        case _:
            return [*values[:place], new, *values[place + 1 :]]


def _scalar(random: Random, field: FieldDescriptor, old: Any) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return random.choice(_TEXTS)
        case FieldDescriptor.TYPE_BYTES:
            return random.choice(_BYTES) if random.randrange(2) else damaged(random, old or b"")
        case FieldDescriptor.TYPE_DOUBLE:
            return random.choice(_DOUBLES)
        case FieldDescriptor.TYPE_BOOL:
            return not old
        case kind:
            return number(random, old or 0, *_RANGES[kind])
