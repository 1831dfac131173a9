"""The compiled kernels do what their references in Python do: the same results, and the same words for damage."""

import os
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_operator.orc import kernels
from compaction_operator.orc.encoding import bloom_filter
from compaction_operator.orc.encoding.integer_runs import integer_runs
from compaction_operator.orc.encoding.rle import decode_booleans, decode_bytes, decode_integers, split_varints
from compaction_operator.orc.encoding.rle_encode import encode_booleans, encode_bytes, encode_integers
from compaction_operator.orc.file.statistics import column_statistics
from compaction_operator.orc.merge.keys import Keys, SortedKeys, hit_by
from compaction_operator.orc.spec import Integers, Kind, Type
from compaction_operator.orc.spec.physical import DECIMAL, TIMESTAMP
from tests.unit.orc.test_rle import deltas, directs, patched_bases, short_repeats, stream, varint, version_1
from tests.unit.orc.test_rle_encode import RUNS, grouped

ROOT = Path(__file__).parents[3]
COUNTS = st.integers(0, 600) | st.sampled_from([2**62, 2**64 - 1])


def outcome(action: Callable[[], Any]) -> tuple[type, Any]:
    """What an action returns, as plain values, or its error."""
    try:
        result = action()
    except ValueError as error:
        return type(error), str(error)
    return type(result), result.tolist() if isinstance(result, np.ndarray) else result


def check_same(action: Callable[[], Any]) -> None:
    assert kernels.compiled
    compiled = outcome(action)
    with patch.object(kernels, "compiled", None):
        assert compiled == outcome(action)


def check_decoders(data: bytes, count: int) -> None:
    for signed in (False, True):
        check_same(partial(decode_integers, data, count, signed=signed, version=1))
        check_same(partial(decode_integers, data, count, signed=signed, version=2))
    for decode in (decode_bytes, decode_booleans, split_varints):
        check_same(partial(decode, data, count))
    check_same(lambda: runs_of(data, min(count, 2**30)))


def runs_of(data: bytes, count: int) -> list[list[int]]:
    runs = integer_runs(data, count, version=2)
    return [runs.starts.tolist(), runs.firsts.tolist(), runs.steps.tolist()]


@settings(max_examples=200)
@given(data=st.binary(max_size=300), count=COUNTS)
def test_any_bytes(data: bytes, count: int):
    check_decoders(data, count)


@settings(max_examples=200)
@given(st.data(), st.booleans(), st.binary(max_size=40))
def test_sound_and_damaged_runs(data: st.DataObject, signed: bool, junk: bytes):
    version_2 = st.one_of(short_repeats(signed), directs(signed), deltas(signed), patched_bases(signed))
    coded, values = stream(data.draw(st.lists(st.one_of(version_2, version_1(signed)), max_size=4)))
    check_decoders(coded, len(values))
    at = data.draw(st.integers(0, len(coded)))
    check_decoders(coded[:at] + junk + coded[at + data.draw(st.integers(0, 40)) :], len(values))


@given(st.data(), st.integers(0, 31), st.integers(0, 31), st.integers(0, 255), st.integers(1, 512))
def test_patches_of_any_width(data: st.DataObject, width: int, patch_width: int, fourth: int, length: int):
    """Also patches that are shifted out of the value, and lists that end behind the stream."""
    head = bytes(
        [0x80 | width << 1 | length - 1 >> 8, length - 1 & 255, data.draw(st.integers(0, 7)) << 5 | patch_width]
    )
    coded = (
        head + bytes([fourth]) + data.draw(st.binary(max_size=80)) + bytes(data.draw(st.sampled_from([0, 600, 4500])))
    )
    for size in range(len(coded) - 9, len(coded)):
        check_same(partial(decode_integers, coded[:size], length, signed=True, version=2))


@pytest.mark.parametrize("cut", range(30))
def test_every_cut_of_the_specifications_examples(cut: int):
    examples = [
        "0a2710",
        "5e035ca1ab1edeadbeef",
        "c609020222424246",
        "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
    ]
    for example, count in zip(examples, [5, 4, 10, 20], strict=True):
        check_decoders(bytes.fromhex(example)[:cut], count)


@settings(max_examples=200)
@given(grouped(RUNS), st.booleans())
def test_integers_are_written_alike(drawn: tuple[list[int], Integers], signed: bool):
    values = np.array(drawn[0], np.int64)
    check_same(lambda: encode_integers(values, drawn[1], signed=signed))


@given(grouped(st.one_of(st.lists(st.integers(0, 255)), st.builds(lambda n: [7] * n, st.integers(0, 300)))))
def test_bytes_and_booleans_are_written_alike(drawn: tuple[list[int], Integers]):
    values = np.array(drawn[0], np.uint8)
    check_same(lambda: encode_bytes(values, drawn[1]))
    check_same(lambda: encode_booleans(values % 2 == 1, drawn[1]))


@pytest.mark.parametrize("seed", range(4))
def test_long_columns_are_written_alike(seed: int):
    """Row groups of ten thousand values, with sequences, repeats, gaps and outliers that small examples rarely have."""
    rng = np.random.default_rng(seed)
    pieces = [
        np.arange(1000) * int(rng.integers(-9, 9)) + int(rng.integers(-(2**40), 2**40)) if rng.random() < 0.3
        else np.cumsum(rng.integers(0, 3, size=int(rng.integers(1, 3000)))) if rng.random() < 0.3
        else np.repeat(rng.integers(0, 9, 300), rng.integers(1, 300, 300)) if rng.random() < 0.3
        else rng.integers(0, 2 ** int(rng.integers(1, 50)), 2000) + (rng.random(2000) < 0.03) * 2**50
        for _ in range(40)
    ]  # fmt: skip
    values = np.concatenate(pieces)
    groups = np.array([*range(0, len(values), 10_000), len(values)])
    check_same(lambda: encode_integers(values, groups, signed=True))
    check_same(lambda: encode_integers(-values, groups, signed=False))


def said(kind: Kind, values: pa.Array) -> bytes:
    """The statistics of values that are a slice of an array, as those of row groups are."""
    around = pa.concat_arrays([values[:2], values, values[-3:]])
    slice_ = around.slice(min(2, len(values)), len(values))
    found: bytes = column_statistics([Type(kind=kind)], 0, slice_).SerializeToString()
    return found


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.none(), max_size=20))
def test_statistics_of_integers(values: list[int | None]):
    check_same(lambda: said(Kind.LONG, pa.array(values, pa.int64())))


@given(st.lists(st.text("ab中，😀", max_size=9).map(str.encode) | st.binary(max_size=3) | st.none(), max_size=9))
def test_statistics_of_strings(values: list[bytes | None]):
    check_same(lambda: said(Kind.STRING, pa.array(values, pa.large_binary())))


UNSCALED = st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**65), 2**65) | st.integers(-9, 9)
SCALES = st.integers(0, 38) | st.sampled_from([-1, 39, 2**62])


@given(st.lists(st.tuples(UNSCALED, SCALES, st.integers(0, 9)) | st.none(), max_size=9), st.booleans())
def test_statistics_of_decimals(values: list[tuple[int, int, int] | None], one_scale: bool):
    """Also of numbers that end in needless bytes, as no writer writes them."""
    found: list[dict[str, object] | None] = []
    for value in values:
        if value:
            unscaled, scale, surplus = value
            written = varint(unscaled << 1 ^ unscaled >> 127)
            longer = written[:-1] + bytes([written[-1] | 0x80]) + b"\x80" * (surplus - 1) + b"\0"
            found.append({"value": longer if surplus else written, "scale": 2 if one_scale else scale})
        else:
            found.append(None)
    check_same(lambda: said(Kind.DECIMAL, pa.array(found, DECIMAL)))


def test_sums_of_decimals_beyond_64_bits():
    values = pa.array([{"value": varint(2**64 - 1), "scale": 0}, {"value": varint(2**64 - 2), "scale": 0}] * 3, DECIMAL)
    check_same(lambda: said(Kind.DECIMAL, values[::2]))
    check_same(lambda: said(Kind.DECIMAL, values[1::2]))


SECONDS = st.integers(-(2**53) - 2, 2**53 + 2) | st.integers(-1_420_070_402, -1_420_070_398)
NANOS = st.integers(-9, 2**34) | st.sampled_from([999_999_999 << 3, 10**9 << 3, 99 << 3 | 6, 100 << 3 | 6, 2**62])


@given(st.lists(st.tuples(SECONDS, NANOS) | st.none(), max_size=9))
def test_statistics_of_timestamps(values: list[tuple[int, int] | None]):
    found = [value and {"seconds": value[0], "nanos": value[1]} for value in values]
    check_same(lambda: said(Kind.TIMESTAMP, pa.array(found, TIMESTAMP)))


FEW = st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1])
EVENTS = st.lists(st.tuples(FEW, FEW, FEW, FEW), max_size=30)


@given(EVENTS, st.booleans())
def test_where_keys_do_not_ascend(events: list[tuple[int, ...]], in_order: bool):
    keys = Keys(*np.array(sorted(set(events)) if in_order else events, np.int64).reshape(-1, 4).T)
    check_same(keys.first_not_ascending)


@given(EVENTS, EVENTS, st.booleans())
def test_which_rows_are_hit(rows: list[tuple[int, ...]], deletes: list[tuple[int, ...]], in_order: bool):
    both = (sorted(rows) if in_order else rows), sorted(deletes)
    found, gone = (Keys(*np.array(events, np.int64).reshape(-1, 4).T) for events in both)
    check_same(lambda: hit_by(found, SortedKeys.of([gone])))


@given(st.lists(st.binary(max_size=40) | st.none(), max_size=50), st.sampled_from([0.5, 0.05, 1e-300]))
def test_bloom_filters(values: list[bytes | None], fpp: float):
    array = pa.array([b"before", *values], pa.large_binary()).slice(1)
    check_same(lambda: bloom_filter(Kind.STRING, array, fpp=fpp, expected_entries=100).SerializeToString())
    numbers = pa.array([None if value is None else zlib.crc32(value) << 31 for value in values], pa.int64())
    check_same(lambda: bloom_filter(Kind.LONG, numbers, fpp=fpp, expected_entries=100).SerializeToString())


@pytest.mark.parametrize("offsets", [[-1, 3], [0, 4], [2, 1]])
def test_offsets_outside_of_their_data_are_refused(offsets: list[int]):
    """The kernel would read elsewhere."""
    assert kernels.compiled
    places = np.array(offsets, np.int64)
    assert kernels.compiled.decimal_statistics(b"abc", places, np.zeros(1, np.int64)) is None
    assert kernels.compiled.decimal_statistics(b"abc", np.array([0, 1]), np.zeros(2, np.int64)) is None
    with pytest.raises(ValueError, match="outside of their data"):
        kernels.compiled.string_bounds(b"abc", places)
    with pytest.raises(ValueError, match="outside of their data"):
        kernels.compiled.hash_strings(b"abc", places)
    with pytest.raises(ValueError, match="without bits"):
        kernels.compiled.bloom_bits(places, 1, 0)


def test_columns_of_different_lengths_are_refused():
    """The kernel would read behind the shorter one."""
    assert kernels.compiled
    short, long = np.zeros(2, np.int64), np.zeros(3, np.int64)
    assert kernels.compiled.timestamp_bounds(short, long) is None
    with pytest.raises(ValueError, match="different lengths"):
        kernels.compiled.first_not_ascending(long, long, long, short)
    for columns in ([long, long, short, long, long, long], [long, long, long, long, short, long]):
        with pytest.raises(ValueError, match="different lengths"):
            kernels.compiled.find_hits(*columns)


@pytest.mark.parametrize("position", [-1, 5, 2**63 - 1])
def test_a_position_outside_of_the_stream_is_refused(position: int):
    """The kernel would read elsewhere."""
    assert kernels.compiled
    with pytest.raises(ValueError, match="outside of the stream"):
        kernels.compiled.steady_runs(b"\xc1\xff\x00\x00", position, 9)


@pytest.mark.parametrize("groups", [[], [0], [1, 3], [0, 2], [0, 4], [0, 2, 1, 3], [0, -1, 3]])
def test_groups_that_are_none_are_refused(groups: list[int]):
    """The kernel would read and write elsewhere."""
    assert kernels.compiled
    offsets = np.array(groups, np.int64)
    with pytest.raises(ValueError, match="row groups"):
        kernels.compiled.encode_integers(np.zeros(3, np.int64), offsets, True)
    with pytest.raises(ValueError, match="row groups"):
        kernels.compiled.encode_bytes(np.zeros(3, np.uint8), offsets)


def test_what_can_change_meanwhile_is_not_decoded():
    """A kernel counts before it writes: in between, another thread could change a bytearray."""
    assert kernels.compiled
    with pytest.raises(TypeError):
        kernels.compiled.decode_integers(bytearray(b"\x0a\x27\x10"), 5, False, 2)


def test_values_may_begin_anywhere():
    """Arrow does not promise that numbers of eight bytes begin at a multiple of eight."""
    assert kernels.compiled
    moved = np.frombuffer(b"?" + np.arange(1000).tobytes(), np.int64, offset=1)
    groups = np.array([0, 1000])
    assert encode_integers(moved, groups, signed=True) == encode_integers(np.arange(1000), groups, signed=True)


def loaded(environment: dict[str, str], *, first: str = "") -> tuple[str, str]:
    """What a new process loads, and what it logs."""
    code = f"import sys\n{first}\nfrom compaction_operator.orc import kernels\nprint(kernels.compiled is not None)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr


def test_the_environment_switches_them_off_silently():
    assert loaded({"COMPACTION_KERNELS": "off"}) == ("False", "")
    assert loaded({"COMPACTION_KERNELS": ""}) == ("True", "")


def test_an_image_without_them_says_so():
    found, log = loaded({}, first="sys.modules['compaction_operator.orc._kernels'] = None")
    assert found == "False"
    assert "kernels are missing: compaction takes several times the CPU time" in log


def test_a_wheel_has_all_of_them():
    (extension,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    folder = ROOT / "operator" / "kernels"
    assert extension["sources"] == sorted(str(path.relative_to(ROOT)) for path in folder.glob("*.c"))
    assert extension["depends"] == sorted(str(path.relative_to(ROOT)) for path in folder.glob("*.h"))
