"""Valid write ids and transactions, in Hive's own notation."""

import pytest

from compaction_operator.acid.write_ids import RangeValidity, ValidTxnList, ValidWriteIdList
from tests.unit.acid.listings import FIXTURES, write_ids

ALL, SOME, NONE = RangeValidity.ALL, RangeValidity.SOME, RangeValidity.NONE


@pytest.mark.parametrize(
    "text",
    [
        "db.t:7:9223372036854775807::2,3,5,7",
        "db.t:6:4:4,5:1",
        "db.t:0:9223372036854775807::",
        "null:9223372036854775807:9223372036854775807::",
    ],
)
def test_hives_notation_comes_back_as_it_went_in(text):
    assert str(ValidWriteIdList.parse(text)) == text
    txns = text.partition(":")[2]
    assert str(ValidTxnList.parse(txns)) == txns


def test_every_list_that_the_metastore_gave_is_read():
    paths = list(FIXTURES.glob("hive-*/*/writeids-*.txt"))
    assert len(paths) == 64
    for path in paths:
        assert str(ValidWriteIdList.parse(path.read_text())) == path.read_text().strip()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "write db.table:highWatermark"),
        ("db.t", "write db.table:highWatermark"),
        (":5:6::", "write db.table:highWatermark"),
        ("db.t:5", "has 4 fields, not 1"),
        ("db.t:5:6:::", "has 4 fields, not 5"),
        ("db.t:x:6::", "highWatermark 'x' is not a number"),
        ("db.t:-1:6::", "highWatermark '-1' is not a number"),
        ("db.t:5:::", "minOpen '' is not a number"),
        ("db.t:5:6:1,,2:", "open '' is not a number"),
        ("db.t:5:6::a", "aborted 'a' is not a number"),
        ("db.t:5:6::²", "aborted '²' is not a number"),
        ("db.t:9223372036854775808:6::", "highWatermark '9223372036854775808' is not a number"),
        ("db.t:5:3:3:3", "3 is both open and aborted"),
    ],
)
def test_a_malformed_list_is_refused_by_name(text, named):
    with pytest.raises(ValueError, match=r"is malformed|is not a write-id list") as error:
        ValidWriteIdList.parse(text)
    assert named in str(error.value)


def test_a_malformed_transaction_list_is_refused_by_name():
    with pytest.raises(ValueError, match="has 4 fields, not 5"):
        ValidTxnList.parse("db.t:5:6::")


def test_valid_is_at_most_the_high_watermark_and_neither_open_nor_aborted():
    ids = write_ids(5, open=(4,), aborted=(2,))
    assert [ids.is_valid(number) for number in range(7)] == [True, True, False, True, False, True, False]


def test_a_transaction_is_valid_only_when_known_to_be_committed():
    txns = ValidTxnList.parse("9:4:4:6")
    assert [txns.is_valid(number) for number in (3, 4, 6, 9, 10)] == [True, False, False, True, False]


def test_the_watermark_lies_below_the_lowest_open_id():
    assert write_ids(9).watermark == 9
    assert write_ids(9, open=(4, 7)).watermark == 3
    assert write_ids(9, open=(1,)).watermark == 0
    assert write_ids(9, aborted=(9,)).watermark == 9


def test_the_watermark_heeds_minopen_and_the_open_list_even_where_they_disagree():
    assert ValidWriteIdList.parse("db.t:9:9223372036854775807:5:").watermark == 4
    assert ValidWriteIdList.parse("db.t:9:3::").watermark == 2


@pytest.mark.parametrize(
    ("low", "high", "validity"),
    [(1, 3, SOME), (1, 1, ALL), (2, 2, NONE), (4, 5, NONE), (2, 5, SOME), (6, 6, ALL), (6, 8, SOME), (7, 8, NONE)],
)
def test_how_much_of_a_range_is_valid(low, high, validity):
    assert write_ids(6, open=(4, 5), aborted=(2,)).valid_range(low, high) is validity


def test_a_range_is_aborted_only_as_a_whole():
    ids = write_ids(9, aborted=(2, 3, 5))
    assert ids.aborted_range(2, 3)
    assert ids.aborted_range(5, 5)
    assert not ids.aborted_range(2, 5)
    assert not ids.aborted_range(4, 4)


def test_capping_forgets_what_came_later():
    assert str(write_ids(9, open=(6,), aborted=(2, 8)).capped(5)) == "db.t:5:9223372036854775807::2"
    assert str(write_ids(9, open=(6,)).capped(7)) == "db.t:7:6:6:"
