"""Names and texts that come from outside, made up near their grammars: what is understood must be what was meant."""

import json
import traceback
from collections.abc import Callable
from random import Random

from compaction_operator.acid.base_metadata import parse_metadata
from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.names import (
    METADATA_ACID,
    AcidDirectory,
    bucket_file_name,
    encode_bucket_property,
    parse_bucket_file,
    parse_directory,
    parse_original_file,
    parse_original_path,
)
from compaction_operator.acid.plan import Layout, check_still_publishable, plan_compaction, with_guard
from compaction_operator.acid.snapshot import NotEnoughHistory, UnsupportedLayout, obsolete_now
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.driver.merge.buckets import Cutting, bucket_work, buckets, raw_files
from compaction_operator.metastore.partition_names import PartitionSpecError, name_of, parse_spec, select, values_of
from compaction_operator.orc import FileSketch
from compaction_operator.orc.spec.hive_types import parse_type
from tests.soak.fuzz.examine import End, Verdict
from tests.soak.fuzz.spelling import spelled

_NUMBERS = ["0", "1", "2", "3", "0000004", "0000005", "10000001", "9223372036854775807", "9223372036854775808"]
_NUMBERS += ["-1", "-9223372036854775808", "4095", "4096", "2147483648", "1" * 5000, "", "٣", "1e3", "+1", "0x1"]
_MORE = [*"0123456789_-v./=%'\"\\<>:,() \t\n\0é٣", "_v", "%2F", "%", "%zz", "delta", "base_", "..", "//"]
_TEMPLATES = [
    "delta_#_#",
    "delta_#_#_#",
    "delete_delta_#_#",
    "delete_delta_#_#_#",
    "base_#",
    "base_#_v#",
    "delta_#_#_v#",
]
_TEMPLATES += [
    "bucket_#",
    "bucket_#_#",
    "0000#_#",
    "00000#_0_copy_#",
    "HIVE_UNION_SUBDIR_#",
    "_orc_acid_version",
    "x=#",
]
_FILES = ["bucket_00000", "bucket_#", "bucket_0000#_#", "_metadata_acid", "_orc_acid_version", "00000#_0", ".x", "#"]
_FILES += ["bucket_00000_flush_length", "000000_0_copy_#", "HIVE_UNION_SUBDIR_1/000000_0", "sub/bucket_00000"]
_LISTS = ["db.t:#:#:#:#", "db.t:#:9223372036854775807::", "t:#:#:#,#,#:#,#", "#:#:#:#", ":#:#::", "db.t:#:#:#:#:#"]
_SPECS = ["p='#'", "p=#/q='#'", 'p="#",q=#', " p = # , q = '#' ", "p=%23/q=a b", "P='a\\'b'", "p=''", "r=#", "p=x,p=y"]
_TYPES = [
    "int",
    "struct<a:int,b:string>",
    "map<string,array<int>>",
    "decimal(#,#)",
    "varchar(#)",
    "uniontype<int,date>",
]
_TYPES += [
    "struct<a:#>",
    "struct<#:int>",
    "array<#>",
    "timestamp with local time zone",
    "array<" * 99 + "int" + ">" * 99,
]
_METADATA = [f'{{"thisFileVersion":"0","dataFormat":"{what}"}}' for what in ("compacted", "truncated", "dropped", "#")]
_METADATA += ['{"dataFormat":"compacted","thisFileVersion":"#"}', '{"thisFileVersion":#}', "[" * 4096, "", "#"]
_SPELLINGS = [
    "a",
    "b/c",
    "x=y",
    "100%",
    "é",
    "",
    " ",
    "a'b",
    'a"b',
    "__HIVE_DEFAULT_PARTITION__",
    "a\nb",
    "\x01",
    "%41",
    "\\",
]
LONG = " " * 5000


def near(random: Random, templates: list[str]) -> str:
    """A text like one of the templates, with a number for each `#`, and perhaps some characters too many or few."""
    text = random.choice(templates)
    while "#" in text:
        text = text.replace("#", random.choice(_NUMBERS[:7] * 4 + _NUMBERS), 1)
    for _ in range(random.choice([0, 0, 0, 1, 2])):
        place = random.randrange(len(text) + 1)
        rest = text[place + random.randrange(3) :]
        text = text[:place] + random.choice([*_MORE, LONG][: len(_MORE) + random.randrange(2)]) + rest
    return text


def examine(random: Random) -> Verdict:
    """Make something up and look what becomes of it."""
    check, templates = random.choice([*CHECKS])
    text = near(random, templates)
    what = f"{check.__name__}({text[:300]!r})"
    try:
        return Verdict(End.RIGHT if check(random, text) else End.REFUSED, what)
    except Exception:
        return Verdict(End.FINDING, f"{what}\n{traceback.format_exc()}")


def check_directory(random: Random, text: str) -> bool:
    """A name is understood or not; what it says can be written again and says the same."""
    found = parse_directory(text)
    if found is None:
        return False
    again = AcidDirectory(found.kind, found.min_write_id, found.max_write_id, found.statement_id, found.visibility_txn)
    assert str(found) == text
    parsed = parse_directory(again.name)
    assert parsed is not None
    assert parsed == again
    return True


def check_file(random: Random, text: str) -> bool:
    """The same of files; a bucket that is understood is one that rows can have, or is refused by name."""
    bucket, original = parse_bucket_file(text), parse_original_file(text)
    assert bucket is None or original is None
    if bucket:
        assert bucket.name == text
        again = parse_bucket_file(bucket_file_name(bucket.bucket))
        assert again
        assert again.bucket == bucket.bucket
    if original:
        assert (original.name, parse_original_path(text)) == (text, original)
    number = bucket or original
    if number and number.bucket < 4096:
        encode_bucket_property(bucket=number.bucket)
    return number is not None


def check_write_ids(random: Random, text: str) -> bool:
    """A list is refused with a ValueError, or written again it is the same."""
    parse: Callable[[str], object] = random.choice([ValidWriteIdList.parse, ValidTxnList.parse])
    try:
        found = parse(text)
    except ValueError:
        return False
    assert parse(str(found)) == found
    return True


def check_spec(random: Random, text: str) -> bool:
    """A spec is refused as such, or names values; the name with these values is a spec for them."""
    keys = ["p", "Q"]
    try:
        found = parse_spec(text, keys)
    except PartitionSpecError:
        return False
    if len(found) == 2:
        name = name_of(keys, found)
        assert values_of(name) == found
        assert select([text], keys=keys, names=[name]).names == (name,)
        if all(found) and all(value.strip() == value and "," not in value for value in found):
            assert parse_spec(name, keys) == found
    return True


def check_partition_name(random: Random, text: str) -> bool:
    """A partition's name has the values that it was made of, and is found by them."""
    values = tuple(random.choice([*_SPELLINGS, text[:20]]) for _ in range(2))
    name = name_of(["p", "Q"], values)
    assert values_of(name) == values
    assert name.count("/") == 1
    values_of(text)
    return True


def check_type(random: Random, text: str) -> bool:
    """A type is refused with a ValueError, or spelled again it is the same."""
    try:
        types = parse_type(text)
    except ValueError:
        return False
    assert [one.SerializeToString() for one in parse_type(spelled(types, 0))] == [
        one.SerializeToString() for one in types
    ]
    return True


def check_metadata(random: Random, text: str) -> bool:
    """What a base says of itself is one of three things, or refused with a ValueError."""
    try:
        found = parse_metadata(text.encode())
    except ValueError:
        return False
    assert json.loads(text) == {**json.loads(text), "thisFileVersion": "0", "dataFormat": found.value}
    return True


def check_plan(random: Random, text: str) -> bool:
    """A listing of such names is planned for and cut into tasks, or refused by name."""
    listing = _listing(random, text)
    layout, kind = random.choice([*Layout]), random.choice([*CompactionType])
    ids = ValidWriteIdList.parse(random.choice([*_VALID]))
    transactions = ValidTxnList.parse("100:9223372036854775807::7") if layout is Layout.HIVE4 else None
    txn = 101 if layout is Layout.HIVE4 else None
    try:
        plan = plan_compaction(listing, ids, type=kind, layout=layout, visibility_txn=txn, valid_txns=transactions)
        obsolete_now(listing, ids, valid_txns=transactions, highest_write_id=ids.watermark)
        raw = dict.fromkeys(raw_files(plan, listing, location="/t"), FileSketch(1, 1, ()))
        found = buckets(plan, listing, location="/t", sketches=raw)
    except (UnsupportedLayout, NotEnoughHistory) as error:
        assert str(error)
        return False
    if plan.breaks_older_snapshots and not plan.has_originals:
        plan = with_guard(plan)
    check_still_publishable(plan, listing)
    assert all(parse_directory(output.name) == output for output in plan.outputs)
    cutting = Cutting(write_ids=ids, row_type=None, memory=1 << 29)
    for output, made in found.items():
        for bucket in made:
            bucket_work(bucket, cutting, sketches={}, output=f"/t/{output}/{bucket_file_name(bucket.bucket)}")
    return True


_VALID = ["db.t:5:9223372036854775807::", "db.t:10000001:9223372036854775807::3", "db.t:9:4:4:2,3"]


def _listing(random: Random, text: str) -> Listing:
    names = [text, *(near(random, _TEMPLATES) for _ in range(random.randrange(6)))]
    files = [near(random, _FILES) for _ in range(random.randrange(4))]
    directories = {
        name: _files(random) for name in names if name and "/" not in name and not name.startswith((".", "_"))
    }
    top = {name: random.choice([0, 1, 300]) for name in files if name and "/" not in name and name not in directories}
    visible = {name: size for name, size in top.items() if not name.startswith((".", "_"))}
    return Listing(
        tuple(Directory(name, held) for name, held in directories.items()),
        tuple(File(name, size) for name, size in visible.items()),
    )


def _files(random: Random) -> tuple[File, ...]:
    usual = ["bucket_00000"] if random.randrange(3) else []
    found = {*usual, *(near(random, _FILES) for _ in range(random.choice([0, 0, 0, 1, 2])))}
    return tuple(_file(random, name) for name in sorted(found) if name)


def _file(random: Random, name: str) -> File:
    content = near(random, _METADATA).encode() if name == METADATA_ACID else None
    return File(name, random.choice([300, 300, 300, 0]), content)


Check = Callable[[Random, str], bool]
CHECKS: list[tuple[Check, list[str]]] = [
    (check_directory, _TEMPLATES),
    (check_file, [*_TEMPLATES, *_FILES]),
    (check_write_ids, _LISTS),
    (check_spec, _SPECS),
    (check_partition_name, _SPECS),
    (check_type, _TYPES),
    (check_metadata, _METADATA),
    (check_plan, _TEMPLATES),
    (check_plan, _TEMPLATES),
]
