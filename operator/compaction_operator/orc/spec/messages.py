"""Protobuf messages of ORC files, declared with the field numbers of the ORC specification, version 1.

The module builds the classes at import time, so no code generator is needed. Enumerations are plain numbers, as on
the wire. Undeclared fields survive parsing and writing as unknown fields.
"""

from enum import IntEnum
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "compaction_operator.orc"
_FIELD = descriptor_pb2.FieldDescriptorProto

# label, type, name, number; `packed` means repeated numbers in one length-delimited field
_DECLARATIONS: dict[str, tuple[str, ...]] = {
    "PostScript": (
        "optional uint64 footer_length 1",
        "optional uint32 compression 2",
        "optional uint64 compression_block_size 3",
        "packed uint32 version 4",
        "optional uint64 metadata_length 5",
        "optional uint32 writer_version 6",
        "optional string magic 8000",
    ),
    "Footer": (
        "optional uint64 header_length 1",
        "optional uint64 content_length 2",
        "repeated StripeInformation stripes 3",
        "repeated Type types 4",
        "repeated UserMetadataItem metadata 5",
        "optional uint64 number_of_rows 6",
        "repeated ColumnStatistics statistics 7",
        "optional uint32 row_index_stride 8",
        "optional uint32 writer 9",
        "optional bytes encryption 10",
        "optional uint32 calendar 11",
    ),
    "StripeInformation": (
        "optional uint64 offset 1",
        "optional uint64 index_length 2",
        "optional uint64 data_length 3",
        "optional uint64 footer_length 4",
        "optional uint64 number_of_rows 5",
    ),
    "Type": (
        "optional uint32 kind 1",
        "packed uint32 subtypes 2",
        "repeated string field_names 3",
        "optional uint32 maximum_length 4",
        "optional uint32 precision 5",
        "optional uint32 scale 6",
    ),
    "UserMetadataItem": ("optional string name 1", "optional bytes value 2"),
    "Metadata": ("repeated StripeStatistics stripe_stats 1",),
    "StripeStatistics": ("repeated ColumnStatistics column_stats 1",),
    "ColumnStatistics": (
        "optional uint64 number_of_values 1",
        "optional IntegerStatistics int_statistics 2",
        "optional DoubleStatistics double_statistics 3",
        "optional StringStatistics string_statistics 4",
        "optional BucketStatistics bucket_statistics 5",
        "optional DecimalStatistics decimal_statistics 6",
        "optional DateStatistics date_statistics 7",
        "optional BinaryStatistics binary_statistics 8",
        "optional TimestampStatistics timestamp_statistics 9",
        "optional bool has_null 10",
    ),
    "IntegerStatistics": ("optional sint64 minimum 1", "optional sint64 maximum 2", "optional sint64 sum 3"),
    "DoubleStatistics": ("optional double minimum 1", "optional double maximum 2", "optional double sum 3"),
    "StringStatistics": (
        "optional bytes minimum 1",
        "optional bytes maximum 2",
        "optional sint64 sum 3",
        "optional bytes lower_bound 4",
        "optional bytes upper_bound 5",
    ),
    "BucketStatistics": ("packed uint64 count 1",),
    "DecimalStatistics": ("optional string minimum 1", "optional string maximum 2", "optional string sum 3"),
    "DateStatistics": ("optional sint32 minimum 1", "optional sint32 maximum 2"),
    "BinaryStatistics": ("optional sint64 sum 1",),
    "TimestampStatistics": (
        "optional sint64 minimum 1",
        "optional sint64 maximum 2",
        "optional sint64 minimum_utc 3",
        "optional sint64 maximum_utc 4",
    ),
    "StripeFooter": (
        "repeated Stream streams 1",
        "repeated ColumnEncoding columns 2",
        "optional string writer_timezone 3",
        "optional bytes encryption 4",
    ),
    "Stream": ("optional uint32 kind 1", "optional uint32 column 2", "optional uint64 length 3"),
    "ColumnEncoding": (
        "optional uint32 kind 1",
        "optional uint32 dictionary_size 2",
        "optional uint32 bloom_encoding 3",
    ),
    "RowIndex": ("repeated RowIndexEntry entry 1",),
    "RowIndexEntry": ("packed uint64 positions 1", "optional ColumnStatistics statistics 2"),
    "BloomFilterIndex": ("repeated BloomFilter bloom_filter 1",),
    "BloomFilter": ("optional uint32 num_hash_functions 1", "repeated fixed64 bitset 2", "optional bytes utf8bitset 3"),
}


class Kind(IntEnum):
    """Kinds of types (ORC specification, "Type Information")."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


class StreamKind(IntEnum):
    """Kinds of streams (ORC specification, "Stripe Footer")."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    DICTIONARY_COUNT = 4
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8


class Encoding(IntEnum):
    """Encodings of a column's streams (ORC specification, "Column Encodings")."""

    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3


class Compression(IntEnum):
    """Compression codecs (ORC specification, "Postscript")."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5


PROLEPTIC_GREGORIAN = 2
"""A value of the footer's calendar (ORC specification, "CalendarKind"); 0 and 1 mean the hybrid Julian/Gregorian."""


def _add_field(message: descriptor_pb2.DescriptorProto, declaration: str) -> None:
    label, type_name, name, number = declaration.split()
    field = message.field.add(name=name, number=int(number))
    field.label = _FIELD.LABEL_OPTIONAL if label == "optional" else _FIELD.LABEL_REPEATED
    if label == "repeated" and type_name not in _DECLARATIONS and type_name not in ("string", "bytes"):
        field.options.features.repeated_field_encoding = descriptor_pb2.FeatureSet.EXPANDED
    if type_name in _DECLARATIONS:
        field.type = _FIELD.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{type_name}"
    else:
        field.type = getattr(_FIELD, f"TYPE_{type_name.upper()}")


def _build() -> dict[str, Any]:
    # NB: this edition rejects a string that is not UTF-8; proto2 would return it as bytes
    file = descriptor_pb2.FileDescriptorProto(
        name="compaction_operator/orc.proto",
        package=_PACKAGE,
        syntax="editions",
        edition=descriptor_pb2.Edition.EDITION_2023,
    )
    for name, fields in _DECLARATIONS.items():
        message = file.message_type.add(name=name)
        for declaration in fields:
            _add_field(message, declaration)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _DECLARATIONS}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


_CLASSES = _build()
PostScript: Any = _CLASSES["PostScript"]
Footer: Any = _CLASSES["Footer"]
Type: Any = _CLASSES["Type"]
Metadata: Any = _CLASSES["Metadata"]
ColumnStatistics: Any = _CLASSES["ColumnStatistics"]
StripeInformation: Any = _CLASSES["StripeInformation"]
StripeFooter: Any = _CLASSES["StripeFooter"]
ColumnEncoding: Any = _CLASSES["ColumnEncoding"]
RowIndex: Any = _CLASSES["RowIndex"]
BloomFilter: Any = _CLASSES["BloomFilter"]
BloomFilterIndex: Any = _CLASSES["BloomFilterIndex"]
