"""The messages parse and write what ORC's own do."""

import pytest
from google.protobuf.message import DecodeError

from compaction_operator.orc.spec import Type
from compaction_operator.orc.spec.messages import BloomFilter, PostScript, StripeFooter


def test_a_text_that_is_not_utf_8_does_not_parse():
    """It would come out as bytes, which no rule for a name or a time zone expects."""
    written = StripeFooter(writer_timezone="UTC").SerializeToString()
    assert StripeFooter.FromString(written).writer_timezone == "UTC"
    with pytest.raises(DecodeError):
        StripeFooter.FromString(written.replace(b"UTC", b"\xff\xfe\xfd"))


def test_lists_of_numbers_are_packed_where_orc_says_so():
    assert Type(subtypes=[1, 2]).SerializeToString() == b"\x12\x02\x01\x02"
    assert PostScript(version=[0, 12]).SerializeToString() == b"\x22\x02\x00\x0c"
    assert BloomFilter(bitset=[1]).SerializeToString() == b"\x11\x01" + bytes(7)


def test_a_field_is_there_or_not_and_an_unknown_one_stays():
    assert not Type().HasField("kind")
    assert Type(kind=0).HasField("kind")
    unknown = b"\xa0\x06\x05"
    assert StripeFooter.FromString(unknown).SerializeToString() == unknown
