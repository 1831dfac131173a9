"""Run lengths are decoded as the specification has them, of every kind and width; anything else is a ValueError."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_operator.orc.encoding.rle import decode_booleans, decode_bytes, decode_integers, split_varints

pytestmark = pytest.mark.usefixtures("both_means")

WIDTHS = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64]
Run = tuple[bytes, list[int]]
"""The bytes of a run and its values."""


def wrapped(value: int) -> int:
    """A number cut to 64 bits with a sign, as Java has it."""
    return (value + 2**63) % 2**64 - 2**63


def zigzag(value: int, signed: bool) -> int:
    return (value << 1 ^ value >> 63) % 2**64 if signed else value


def varint(value: int) -> bytes:
    septets = [value & 127]
    while value := value >> 7:
        septets.append(value & 127)
    return bytes([*(septet | 128 for septet in septets[:-1]), septets[-1]])


def packed(values: Sequence[int], width: int) -> bytes:
    bits = "".join(f"{value:0{width}b}" for value in values)
    bits += "0" * (-len(bits) % 8)
    return int(bits or "0", 2).to_bytes(len(bits) // 8, "big")


def header(kind: int, width: int, length: int) -> bytes:
    code = WIDTHS.index(width) if width else 0
    return bytes([kind << 6 | code << 1 | length - 1 >> 8, length - 1 & 255])


def stream(runs: Sequence[Run]) -> Run:
    return b"".join(data for data, _ in runs), [value for _, values in runs for value in values]


@st.composite
def numbers(draw: st.DrawFn, signed: bool) -> int:
    width = draw(st.sampled_from([1, 7, 20, 63]))
    return draw(st.integers(-(2**width) if signed else 0, 2**width - 1))


@st.composite
def short_repeats(draw: st.DrawFn, signed: bool) -> Run:
    value, length = draw(numbers(signed)), draw(st.integers(3, 10))
    coded = zigzag(value, signed)
    size = max(1, (coded.bit_length() + 7) // 8)
    return bytes([size - 1 << 3 | length - 3]) + coded.to_bytes(size, "big"), [value] * length


@st.composite
def directs(draw: st.DrawFn, signed: bool) -> Run:
    width = draw(st.sampled_from(WIDTHS))
    length = draw(st.sampled_from([1, 2, 7, 8, 9, 31, 512]))
    seed = draw(st.integers(0, 2**64 - 1))
    coded = [(seed * (place + 1) * 0x9E3779B97F4A7C15 % 2**64) >> 64 - width for place in range(length)]
    values = [code >> 1 ^ -(code & 1) for code in coded] if signed else [wrapped(code) for code in coded]
    return header(1, width, length) + packed(coded, width), values


@st.composite
def deltas(draw: st.DrawFn, signed: bool) -> Run:
    first, step = draw(numbers(signed)), draw(numbers(True))
    width = draw(st.sampled_from([0, *WIDTHS[1:]]))
    length = draw(st.integers(2, 512)) if width else draw(st.integers(1, 512))
    more = [draw(st.integers(0, 2**width - 1))] * (length - 2) if width else [abs(step)] * (length - 2)
    steps = [step, *(-delta if step < 0 else delta for delta in more)][: length - 1]
    values = [first]
    for one in steps:
        values.append(wrapped(values[-1] + one))
    start = header(3, width, length) + varint(zigzag(first, signed)) + varint(zigzag(step, True))
    return start + packed(more if width else [], width or 1), values


@st.composite
def patched_bases(draw: st.DrawFn, signed: bool) -> Run:
    width, patch_width = draw(st.sampled_from(WIDTHS[:24])), draw(st.sampled_from(WIDTHS[:24]))
    gap_width = 8
    length = draw(st.integers(1, 512))
    base = draw(st.integers(-(2**40) if signed else 0, 2**40))
    values = [draw(st.integers(0, 2**width - 1))] * length
    list_of_patches: list[int] = []
    at = 0
    for gap in draw(st.lists(st.integers(0, 255), min_size=1, max_size=31)):
        if at + gap >= length:
            break
        at += gap
        patch = draw(st.integers(0, 2**patch_width - 1)) if gap or not list_of_patches else 0
        values[at] |= patch << width
        list_of_patches.append(gap << patch_width | patch)
    size = max(1, (abs(base).bit_length() + 8) // 8)
    entry = next(fixed for fixed in WIDTHS if fixed >= patch_width + gap_width)
    sizes = bytes([size - 1 << 5 | WIDTHS.index(patch_width), gap_width - 1 << 5 | len(list_of_patches)])
    coded_base = (abs(base) | (base < 0) << 8 * size - 1).to_bytes(size, "big")
    low = [value & 2**width - 1 for value in values]
    data = header(2, width, length) + sizes + coded_base + packed(low, width) + packed(list_of_patches, entry)
    return data, [base + value for value in values]


@st.composite
def version_1(draw: st.DrawFn, signed: bool) -> Run:
    if draw(st.booleans()):
        literals = draw(st.lists(numbers(signed), min_size=1, max_size=128))
        return bytes([256 - len(literals)]) + b"".join(varint(zigzag(one, signed)) for one in literals), literals
    first, step, length = draw(numbers(signed)), draw(st.integers(-128, 127)), draw(st.integers(3, 130))
    data = bytes([length - 3, step % 256]) + varint(zigzag(first, signed))
    return data, [wrapped(first + place * step) for place in range(length)]


@given(st.data(), st.booleans())
def test_runs_of_version_2_of_every_kind_and_width(data: st.DataObject, signed: bool):
    runs = st.one_of(short_repeats(signed), directs(signed), deltas(signed), patched_bases(signed))
    coded, values = stream(data.draw(st.lists(runs, max_size=6)))
    assert decode_integers(coded, len(values), signed=signed, version=2).tolist() == values


@given(st.data(), st.booleans())
def test_runs_of_version_1(data: st.DataObject, signed: bool):
    coded, values = stream(data.draw(st.lists(version_1(signed), max_size=6)))
    assert decode_integers(coded, len(values), signed=signed, version=1).tolist() == values


@pytest.mark.parametrize(
    ("coded", "values", "signed"),
    [
        ("0a2710", [10000] * 5, False),
        ("5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879], False),
        ("c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29], False),
        (
            "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
            [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)],
            False,
        ),
        ("c0060101", [-1, -2, -3, -4, -5, -6, -7], True),
        ("7e00ffffffffffffffff7e00fffffffffffffffe", [-(2**63), 2**63 - 1], True),
        ("38ffffffffffffffff", [-1] * 3, False),
    ],
)
def test_the_specifications_examples_of_version_2_and_extremes(coded: str, values: list[int], signed: bool):
    assert decode_integers(bytes.fromhex(coded), len(values), signed=signed, version=2).tolist() == values


@pytest.mark.parametrize(
    ("coded", "values"),
    [("610007", [7] * 100), ("61ff64", list(range(100, 0, -1))), ("fb020306070b", [2, 3, 6, 7, 11])],
)
def test_the_specifications_examples_of_version_1(coded: str, values: list[int]):
    assert decode_integers(bytes.fromhex(coded), len(values), signed=False, version=1).tolist() == values


def test_the_specifications_examples_of_bytes_and_booleans():
    assert decode_bytes(bytes.fromhex("6100"), 100).tolist() == [0] * 100
    assert decode_bytes(bytes.fromhex("fe4445"), 2).tolist() == [0x44, 0x45]
    assert decode_booleans(bytes.fromhex("ff80"), 8).tolist() == [True, *[False] * 7]
    assert decode_booleans(bytes.fromhex("ff80"), 3).tolist() == [True, False, False]


@pytest.mark.parametrize("signed", [False, True])
def test_many_short_repeats(signed: bool):
    """Large arrays take other ways inside numpy than small ones."""
    values = np.arange(100_000) % 100 + 27
    coded = b"".join(bytes([1 << 3, 0, zigzag(value, signed)]) for value in values.tolist())
    decoded = decode_integers(coded, 300_000, signed=signed, version=2)
    assert np.array_equal(decoded, np.repeat(values, 3))


def test_many_runs_of_one_width():
    values = np.arange(10_000 * 9) % 8
    coded = b"".join(header(1, 3, 9) + packed(part.tolist(), 3) for part in values.reshape(-1, 9))
    assert np.array_equal(decode_integers(coded, len(values), signed=False, version=2), values)


def test_varints_of_any_size_are_separated():
    sizes = [1, 2, 19, 1, 100]
    coded = b"".join(b"\xff" * (size - 1) + b"\x01" for size in sizes)
    assert split_varints(coded, 5).tolist() == sizes
    assert split_varints(b"", 0).tolist() == []
    for data, count in [(coded, 4), (coded, 6), (coded[:-1], 4), (coded + b"\x80", 5), (b"", 1)]:
        with pytest.raises(ValueError, match="numbers, not"):
            split_varints(data, count)


@pytest.mark.parametrize(
    ("coded", "version", "reason"),
    [
        (header(3, 2, 1) + b"\x00\x00", 2, "a delta run without a delta"),
        (header(3, 0, 9) + b"\xff" * 20, 2, "more than 64 bits"),
        (b"\x61\x00" + b"\xff" * 20, 1, "more than 64 bits"),
        (b"\xff" + b"\xff" * 10 + b"\x01", 1, "more than 64 bits"),
        (header(2, 1, 1) + bytes([0b00000000, 0b00000001, 0, 0, 0xC0]), 2, "beyond its run"),
        (header(2, 1, 1) + bytes([0b00011111, 0b00000001, 0, 0]), 2, "more than 64 bits"),
    ],
)
def test_runs_that_cannot_be(coded: bytes, version: int, reason: str):
    with pytest.raises(ValueError, match=reason):
        decode_integers(coded, 1, signed=False, version=version)


@pytest.mark.parametrize(
    ("coded", "version"),
    [
        (header(1, 8, 5) + b"abcd", 2),
        (header(1, 8, 5), 2),
        (header(3, 8, 5) + b"\x01\x01ab", 2),
        (header(3, 0, 5) + b"\x01", 2),
        (header(2, 8, 5) + b"\x00\x01\x00abcde", 2),
        (b"\x0a", 2),
        (b"\x02\x00", 1),
        (b"\xfb\x01\x01\x01\x01", 1),
    ],
)
def test_a_run_that_is_cut_off_is_refused(coded: bytes, version: int):
    """What is behind the end of the stream is never taken for values."""
    with pytest.raises(ValueError, match="truncated"):
        decode_integers(coded, 5, signed=False, version=version)
    with pytest.raises(ValueError, match="truncated"):
        decode_bytes(b"\xfbabcd", 5)


@pytest.mark.parametrize("count", [99, 101, 2**60])
def test_a_stream_holds_as_many_values_as_it_must(count: int):
    """Whatever number of values is asked for, nothing is allocated before it is known to be right."""
    for coded, version in [("610007", 1), ("c063" + "0700", 2)]:
        with pytest.raises(ValueError, match=r"truncated|more than"):
            decode_integers(bytes.fromhex(coded), count, signed=False, version=version)
    with pytest.raises(ValueError, match=r"truncated|more than"):
        decode_bytes(bytes.fromhex("6100"), count)
    with pytest.raises(ValueError, match=r"truncated|more than"):
        decode_booleans(bytes.fromhex("6100"), count * 9)


@settings(max_examples=400)
@given(
    data=st.binary(max_size=300),
    count=st.integers(0, 600) | st.just(2**62),
    signed=st.booleans(),
    version=st.sampled_from([1, 2]),
)
def test_any_bytes_are_refused_or_give_the_count(data: bytes, count: int, signed: bool, version: int):
    for decode in (
        lambda: decode_integers(data, count, signed=signed, version=version),
        lambda: decode_bytes(data, count),
        lambda: decode_booleans(data, count),
        lambda: split_varints(data, count),
    ):
        try:
            assert len(decode()) == count
        except ValueError:
            continue


@given(st.data(), st.booleans(), st.binary(max_size=40))
def test_damaged_runs_are_refused_or_give_the_count(data: st.DataObject, signed: bool, junk: bytes):
    runs = st.one_of(short_repeats(signed), directs(signed), deltas(signed), patched_bases(signed))
    coded, values = stream(data.draw(st.lists(runs, min_size=1, max_size=4)))
    at = data.draw(st.integers(0, len(coded)))
    damaged = coded[:at] + junk + coded[at + data.draw(st.integers(0, 40)) :]
    try:
        assert len(decode_integers(damaged, len(values), signed=signed, version=2)) == len(values)
    except ValueError:
        return
