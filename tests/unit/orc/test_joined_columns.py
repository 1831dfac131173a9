"""Stripes that are decoded together give what each gives alone, and are refused where one is refused alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_operator.orc import OrcError, merge_bucket
from compaction_operator.orc.file import StripeReader, joined_column, read_tail
from compaction_operator.orc.merge import source
from compaction_operator.orc.spec import Encoding, Kind
from tests.unit.orc.build import insert, insert_task, read_events, write_acid
from tests.unit.orc.columns import LONG, PRIMITIVE_SHAPES, STRING, Shape, layout, random_arrays, same_bits, tree, write
from tests.unit.orc.test_decode import (
    DATA_,
    DICTIONARY,
    LENGTH,
    PRESENT,
    VICTIMS,
    WORD_STREAMS,
    WORDS,
    HandMade,
    repeated,
)

NESTED: list[Shape] = [
    (Kind.LIST, (STRING,)),
    (Kind.MAP, (STRING, (Kind.DECIMAL, ()))),
    (Kind.STRUCT, (LONG, (Kind.LIST, ((Kind.TIMESTAMP, ()),)))),
    (Kind.UNION, (LONG, STRING, (Kind.BOOLEAN, ()))),
]


def alone(readers: Sequence[StripeReader], column: int) -> pa.Array:
    return pa.concat_arrays([reader.column(column) for reader in readers])


@pytest.mark.parametrize("seed", range(3))
def test_columns_of_all_types_are_those_of_the_stripes_one_after_another(tmp_path: Path, seed: int):
    """Some stripes have nulls and others not, and their sizes differ."""
    below = [*PRIMITIVE_SHAPES, *NESTED]
    types = tree(*below)
    stripes = [random_arrays(types, below, count, seed + count) for count in (40, 1, 700, 3)]
    stripes.append({column: pa.array([array.drop_null()[0]] * 9, array.type) for column, array in stripes[2].items()})
    path = write(tmp_path / "file", layout(types), *stripes)
    with path.open("rb") as file:
        readers = [StripeReader(file, read_tail(str(path)), index) for index in range(len(stripes))]
        for column in (0, *types[0].subtypes):
            joined = joined_column(readers, column)
            joined.validate(full=True)
            assert same_bits(joined, alone(readers, column)), types[column]


def test_dictionaries_become_one_without_a_word_twice():
    other = {(1, DATA_): repeated(0, 3), (1, LENGTH): b"\x42\x01\x60", (1, WORDS): b"bcc"}
    readers = [HandMade(tree(STRING), 3, streams, DICTIONARY).open() for streams in (WORD_STREAMS, other)]
    words = joined_column(readers, 1, words=True)
    assert words.to_pylist() == [b"bb"] * 3 + [b"b"] * 3
    assert words.dictionary.to_pylist() == [b"a", b"bb", b"b", b"cc"]


def test_text_with_a_dictionary_in_some_stripes_is_text():
    direct = HandMade(tree(STRING), 3, {(1, LENGTH): repeated(1, 3), (1, DATA_): b"xyz"})
    readers = [HandMade(tree(STRING), 3, WORD_STREAMS, DICTIONARY).open(), direct.open()]
    assert joined_column(readers, 1, words=True).equals(pa.array([b"bb"] * 3 + [b"x", b"y", b"z"], pa.large_binary()))


@pytest.mark.parametrize(
    ("kind", "one", "other", "encodings", "reason"),
    [
        (
            Kind.STRING,
            {(1, LENGTH): repeated(1, 3), (1, DATA_): b"ab"},
            {(1, LENGTH): repeated(1, 3), (1, DATA_): b"abcd"},
            {},
            "2 bytes of values whose lengths add up to 3",
        ),
        (
            Kind.STRING,
            WORD_STREAMS | {(1, DATA_): repeated(2, 3)},
            WORD_STREAMS,
            DICTIONARY,
            "an index outside the dictionary",
        ),
        (Kind.LONG, {(1, DATA_): repeated(0, 4)}, {(1, DATA_): b""}, {}, "more than 3 values"),
    ],
)
def test_what_a_stripe_lacks_is_not_taken_from_the_next(kind, one, other, encodings, reason):
    readers = [HandMade(tree((kind, ())), 3, streams, encodings).open() for streams in (one, other)]
    with pytest.raises(ValueError, match=reason):
        joined_column(readers, 1)


def test_a_number_of_rows_that_no_stream_confirms_takes_no_memory():
    """The other stripe has nulls, so there is a bit for each row."""
    types = tree(LONG)
    endless = HandMade(types, 2**60, {(1, DATA_): repeated(0, 3)})
    nulls = HandMade(types, 4, {(1, PRESENT): b"\xff\xe0", (1, DATA_): repeated(0, 3)})
    with pytest.raises(ValueError, match="truncated"):
        joined_column([nulls.open(), endless.open()], 1)


@settings(max_examples=60, deadline=None)
@given(victim=st.sampled_from(VICTIMS), data=st.data(), junk=st.binary(max_size=12))
def test_damage_is_refused_exactly_if_the_stripe_is_refused_alone(victim: HandMade, data: st.DataObject, junk: bytes):
    key = data.draw(st.sampled_from(sorted(victim.streams)))
    old = victim.streams[key]
    start = data.draw(st.integers(0, len(old)))
    end = data.draw(st.integers(start, min(len(old), start + 12)))
    kind, size = victim.encodings[key[0]]
    encodings = {**victim.encodings, key[0]: (data.draw(st.sampled_from([kind, kind, *Encoding])), size)}
    damaged = replace(victim, streams={**victim.streams, key: old[:start] + junk + old[end:]}, encodings=encodings)
    readers = [victim.open(), damaged.open(), victim.open()]
    try:
        expected = alone(readers, 0)
    except OrcError as error:
        with pytest.raises((ValueError, pa.ArrowException)) as caught:
            joined_column(readers, 0)
        assert str(error).endswith(str(caught.value).partition("\n")[0])
        return
    assert same_bits(joined_column(readers, 0), expected)


def test_a_merge_decodes_small_stripes_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Text with and without a dictionary, and deleted rows, too."""
    events = [[insert(w, n, f"{n % w}") for n in range(50)] for w in range(1, 30)]
    files = [write_acid(tmp_path / f"{w}", rows) for w, rows in enumerate(events)]
    asked = []

    def counting(readers: Sequence[StripeReader], column: int, *, words: bool = False) -> pa.Array:
        asked.append(len(readers))
        return joined_column(readers, column, words=words)

    monkeypatch.setattr(source, "joined_column", counting)
    merge_bucket(insert_task(tmp_path / "out", files))
    assert asked == [29] * 7  # five key columns, and two of the table
    assert read_events(tmp_path / "out") == [event for rows in events for event in rows]


@pytest.mark.parametrize("damaged", range(3))
def test_the_file_of_a_damaged_small_stripe_is_named(tmp_path: Path, damaged: int):
    """As if it had been decoded alone."""
    files = [write_acid(tmp_path / f"{w}", [insert(w, n, f"{n * 7919}") for n in range(900)]) for w in (1, 2, 3)]
    path = Path(files[damaged].path)
    content, tail = bytearray(path.read_bytes()), read_tail(str(path))
    start, length = tail.extent(0)
    content[start + length // 2 : start + length // 2 + 200] = bytes(200)
    path.write_bytes(content)
    with pytest.raises(OrcError) as by_itself:
        merge_bucket(insert_task(tmp_path / "one", [files[damaged]]))
    with pytest.raises(OrcError) as among_others:
        merge_bucket(insert_task(tmp_path / "out", files))
    assert str(among_others.value) == str(by_itself.value)
    assert f"{path}: stripe 0: column " in str(among_others.value)


def test_the_file_of_wrong_keys_is_named(tmp_path: Path):
    files = [write_acid(tmp_path / f"{w}", [insert(w, n) for n in range(9)]) for w in (1, 2, 3)]
    wrong = write_acid(tmp_path / "wrong", [(2, *insert(4, 0)[1:])])
    with pytest.raises(OrcError, match=r"wrong: column operation is 2, expected 0"):
        merge_bucket(insert_task(tmp_path / "out", [*files, wrong]))
