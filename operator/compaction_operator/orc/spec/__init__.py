"""The ORC specification as data: protobuf messages, type trees, and the meaning of stored values."""

from compaction_operator.orc.errors import OrcError, RepeatedRowError, RowTypeError
from compaction_operator.orc.spec.arrays import Booleans, Integers, Words, sums_before
from compaction_operator.orc.spec.hive_types import parse_type, spell
from compaction_operator.orc.spec.messages import Compression, Encoding, Kind, StreamKind, Type
from compaction_operator.orc.spec.physical import TEXTS, WORDS, concatenated, physical_type, without_words

__all__ = [
    "TEXTS",
    "WORDS",
    "Booleans",
    "Compression",
    "Encoding",
    "Integers",
    "Kind",
    "OrcError",
    "RepeatedRowError",
    "RowTypeError",
    "StreamKind",
    "Type",
    "Words",
    "concatenated",
    "parse_type",
    "physical_type",
    "spell",
    "sums_before",
    "without_words",
]
