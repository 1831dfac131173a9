"""The words for Hudi tables on their way between API server, controller and driver."""

import pytest
from pydantic import ValidationError

from compaction_operator.api.compaction import CompactionType, Format, TableCompactionSpec, TableRef
from compaction_operator.api.config import HudiSettings
from compaction_operator.api.hudi import HudiMode, HudiOptions, HudiStatus
from compaction_operator.api.model import format_size
from compaction_operator.api.request import (
    FINAL_REASONS,
    SUCCESS_REASONS,
    TERMINATION_MESSAGE_BYTES,
    WAITING_REASONS,
    DriverResult,
    Reason,
)


def test_every_type_has_one_format() -> None:
    assert [type_.table_format for type_ in CompactionType] == [Format.HIVE_ACID] * 2 + [Format.HUDI] * 4
    nouns = ["Minor compaction", "Major compaction", "LogCompaction", "Compaction", "Clean", "Archive"]
    assert [type_.noun for type_ in CompactionType] == nouns


def test_a_table_is_called_by_its_location_where_it_has_no_name() -> None:
    assert str(TableRef(database="Lake", name="Orders")) == "lake.orders"
    assert str(TableRef(location="/warehouse/Lake/orders")) == "/warehouse/Lake/orders"


def test_options_survive_the_way_to_the_driver() -> None:
    """Also a size that is no multiple of a MiB: a log file's limit is often less than that."""
    options = HudiOptions(
        mode=HudiMode.SCHEDULE, options={"hoodie.clean.policy": "KEEP"}, max_log_file_size_to_merge=40 * 1024
    )
    assert options.to_json()["maxLogFileSizeToMerge"] == "40KiB"
    assert HudiOptions.model_validate(options.to_json()) == options


@pytest.mark.parametrize(
    ("size", "text"),
    [(1, "1KiB"), (1023 * 1024, "1023KiB"), (2**20, "1MiB"), (977 * 2**20 + 1, "978MiB"), (2**30, "1024MiB")],
)
def test_sizes_are_written_in_at_most_so_many_digits_as_are_read(size: int, text: str) -> None:
    """Rounded up, to a KiB as long as that fits."""
    assert format_size(size) == text


def test_a_spec_without_hudis_options_has_none() -> None:
    """So that a compaction of a Hive ACID table does not show them."""
    spec = TableCompactionSpec(warehouse="w", table=TableRef(database="d", name="t"), type=CompactionType.MINOR)
    assert "hudi" not in spec.to_json()


@pytest.mark.parametrize("bundle", ["../../tmp/evil", "1.0", "1.0.2-rc1", ""])
def test_a_bundle_is_a_version_and_no_path(bundle: str) -> None:
    with pytest.raises(ValidationError, match="bundle"):
        HudiOptions(bundle=bundle)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"options": {"fs.defaultFS": "x"}}, "fs.defaultFS"),
        ({"locations": ["lake"]}, "locations"),
        ({"locations": ["abfs://lake@account/orders"]}, "locations"),
    ],
)
def test_a_warehouses_settings_are_checked_by_name(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        HudiSettings.model_validate(settings)


def test_every_reason_is_of_one_sort() -> None:
    """What ends well, what ends it, what is waited for; all others count against retry.maxAttempts."""
    assert not FINAL_REASONS & WAITING_REASONS
    assert not SUCCESS_REASONS & (FINAL_REASONS | WAITING_REASONS)


def test_a_long_result_fits_into_a_termination_message() -> None:
    """The kubelet cuts what is longer, and a cut result is none."""
    many = tuple(f"20261101120{number:06d}.logcompaction.requested of {'x' * 99}" for number in range(500))
    full = HudiStatus(
        table_version=9, bundle="1.2.0", instant=many[0][:17], action="logcompaction", state="Completed",
        file_groups=10**6, blocks_in=10**9, blocks_out=10**9, bytes_in=10**15, bytes_out=10**15,
        write_amplification="1000.00", rolled_back=many, removed=many, pending=many, stale=many,
        cleaned=f"{many[0][:17]}: 1000000 files", nothing_planned="n" * 9999,
    )  # fmt: skip
    short = DriverResult(reason=Reason.ATTEMPTS_EXHAUSTED, message="m" * 9999, hudi=full).shortened()
    assert len(short.model_dump_json(by_alias=True).encode()) < TERMINATION_MESSAGE_BYTES
    assert short.hudi is not None
    assert (short.hudi.pending[0], short.hudi.pending[-1]) == (many[0][:80], "and 496 more")
    few = full.model_copy(update={"pending": ("20261101120000000",), "nothing_planned": None}).shortened()
    assert (few.pending, few.nothing_planned) == (("20261101120000000",), None)


def test_a_long_result_in_another_script_fits_too() -> None:
    """A character may take four bytes."""
    short = DriverResult(
        reason=Reason.ATTEMPTS_EXHAUSTED, message="x" + "\U0001d11e" * 5000, apart="ü" * 5000
    ).shortened()
    assert len(short.model_dump_json(by_alias=True).encode()) < TERMINATION_MESSAGE_BYTES
    assert (short.message, short.apart) == ("x" + "\U0001d11e" * 255, "ü" * 256)


@pytest.mark.parametrize("stages", ['{"plan": null, "merge": [1, 2, 3]}', '{"plan": [1.5, 2, 3], "merge": [1, 2, 3]}'])
def test_a_driver_of_another_release_still_says_how_it_ended(stages: str) -> None:
    """Else what is waited for counts as a failure."""
    said = f'{{"reason": "MetastoreUnavailable", "message": "m", "later": {{"a": 1}}, "stages": {stages}}}'
    assert DriverResult.model_validate_json(said) == DriverResult(
        reason=Reason.METASTORE_UNAVAILABLE, message="m", stages={"merge": (1, 2, 3)}
    )
    assert not DriverResult.model_validate_json('{"reason": "Compacted", "message": "", "stages": 7}').stages


def test_what_was_done_in_a_sentence() -> None:
    done = HudiStatus(
        instant="20261101120000000", action="logcompaction", state="Completed",
        file_groups=2, blocks_in=8, blocks_out=2, bytes_in=900, bytes_out=800,
    )  # fmt: skip
    text = "logcompaction 20261101120000000 Completed: 2 file groups, 8 blocks (900 bytes) became 2 (800 bytes)"
    assert str(done) == text
    assert str(HudiStatus(nothing_planned="2 blocks, threshold 5")) == "2 blocks, threshold 5"
