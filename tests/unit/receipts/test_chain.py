"""What a chain of receipts proves: each line proves all lines before it, and a known head proves the last one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.receipts import DamagedReceiptError, Head, Kind, Receipt, digest, verify

Lines = list[tuple[int, bytes]]


def draft(**changes: Any) -> Receipt:
    plain: dict[str, Any] = {
        "time": "2026-01-01T12:00:00Z",
        "kind": Kind.DELETION,
        "warehouse": "main",
        "table": "sales.orders",
        "namespace": "analytics",
        "compaction": "nightly",
        "compaction_uid": "uid",
        "attempt": 1,
        "reason": "Obsolete",
    }
    return Receipt(**{**plain, **changes})


def chain(length: int, **changes: Any) -> Lines:
    lines: Lines = []
    head = Head()
    for number in range(1, length + 1):
        line = draft(number=number, previous=head.digest, message=f"the {number}.", **changes).line()
        lines.append((number, line))
        head = Head(number, digest(line))
    return lines


def head_of(lines: Lines) -> Head:
    return verify(lines).head


def findings(lines: Lines, known: Head | None = None) -> tuple[str, ...]:
    return verify(lines, known=known).findings


def test_an_untouched_chain_is_whole() -> None:
    lines = chain(5)
    verdict = verify(lines, known=head_of(lines[:3]))
    assert verdict.findings == ()
    assert (verdict.count, verdict.head) == (5, Head(5, digest(lines[4][1])))
    assert verify([]).head == Head()


def test_a_line_is_read_as_it_was_written() -> None:
    """Also by a version that does not know all of its fields."""
    receipt = draft(number=3, message="»ä«\nb")
    assert receipt.line().count(b"\n") == 1
    assert Receipt.parse(receipt.line()) == receipt
    assert Receipt.parse(json.dumps({**receipt.to_json(), "later": 1}).encode()) == receipt
    with pytest.raises(DamagedReceiptError, match="kind"):
        Receipt.parse(b"{}")


@given(st.data())
def test_any_other_byte_in_any_line_but_the_last_is_found(data: st.DataObject) -> None:
    lines = chain(4)
    which = data.draw(st.integers(0, 2))
    place = data.draw(st.integers(0, len(lines[which][1]) - 1))
    other = data.draw(st.integers(1, 255))
    number, line = lines[which]
    altered = line[:place] + bytes([line[place] ^ other]) + line[place + 1 :]
    assert findings([*lines[:which], (number, altered), *lines[which + 1 :]])


@pytest.mark.parametrize(
    ("left", "finding"),
    [
        ([1, 3, 4], "missing: receipt 2"),
        ([1, 4], "missing: receipts 2 to 3"),
        ([2, 3, 4], "missing: receipt 1"),
    ],
)
def test_what_was_removed_is_named(left: list[int], finding: str) -> None:
    lines = chain(4)
    assert findings([lines[number - 1] for number in left]) == (finding,)


def test_receipts_that_changed_places_are_found() -> None:
    first, second, third = chain(3)
    swapped = [first, (2, third[1]), (3, second[1])]
    assert findings(swapped) == (
        "receipt 2 was altered, or moved: it says that it is number 3",
        "receipt 3 was altered, or moved: it says that it is number 2",
    )
    assert findings([first, second, (2, second[1]), third]) == ("receipt 2 is there twice, or not in its place",)


def test_the_end_is_proved_by_a_head_that_was_kept_elsewhere() -> None:
    """Without one, a chain that is cut off, altered in its last line, or made again, looks whole."""
    lines = chain(4)
    known, made_again = head_of(lines), chain(4, reason="Other")
    assert findings(lines[:3]) == findings(made_again) == ()
    assert findings(lines[:3], known) == ("receipt 4 was there before and is missing; the newest one is 3",)
    assert findings(made_again, known) == (f"receipt 4 was altered: its SHA-256 was {known.digest}",)


def test_a_second_chain_from_one_receipt_is_found_where_it_is_joined() -> None:
    lines = chain(4)
    other = draft(number=3, previous=digest(lines[1][1]), message="another").line()
    assert findings([*lines[:2], (3, other), lines[3]]) == (
        "receipt 3 or receipt 4 was altered: receipt 4 has another hash of the one before",
    )


def test_a_head_is_read_as_it_is_printed() -> None:
    head = head_of(chain(2))
    assert Head.parse(str(head)) == head
    with pytest.raises(ValueError, match="'2' is not a head"):
        Head.parse("2")
