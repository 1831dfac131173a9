"""Sizes and what the configuration's defaults are."""

import pytest

from compaction_operator.api.config import SparkProfile
from compaction_operator.api.model import format_size, parse_size
from compaction_operator.orc import DEFAULT_TASK_MEMORY


@pytest.mark.parametrize(
    ("text", "size"), [("512MiB", 2**29), ("512Mi", 2**29), ("2GiB", 2**31), ("2Gi", 2**31), ("512KiB", 2**19)]
)
def test_sizes_as_people_and_kubernetes_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["512", "512m", "512KB", "0MiB", "-1MiB", "1.5GiB", "much", "", "99999999GiB"])
def test_what_is_no_size_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is not a size"):
        parse_size(text)


def test_a_profile_survives_the_way_to_the_driver() -> None:
    """The size is written as it is read."""
    profile = SparkProfile(name="p", image="i", task_memory=3 * 2**30)
    assert profile.to_json()["taskMemory"] == "3072MiB"
    assert SparkProfile.model_validate(profile.to_json()) == profile
    assert format_size(2**20 + 1) == "1025KiB"


def test_the_profiles_default_is_the_engines() -> None:
    assert SparkProfile(name="p", image="i").task_memory == DEFAULT_TASK_MEMORY
