"""The cleanup on S3, where nothing can be hidden or moved: names wait where they are, and readers are held off."""

from collections.abc import Callable

import pytest

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.cleanup.deletion import READERS_BUSY
from compaction_operator.controller.answers import Trouble
from compaction_operator.driver.errors import JobError
from tests.integration.metastore.controller_steps import ControllerSteps, end, read_lock
from tests.integration.metastore.fixture_table import FixtureTable
from tests.integration.metastore.test_cleanup_attempt import DELTAS, OUTPUT

SERVERS = ("4.0.1-minio",)


def test_a_quarantine_waits_in_place_and_ends_when_no_reader_is_listing(
    three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]
) -> None:
    """While something waits, the metastore forgets nothing."""
    steps = compact(three_inserts, quarantine="1h")
    assert steps.settle() == {"": PublishedState.PUBLISHED}
    (result,) = steps.delete()
    assert (sorted(result.quarantined), result.deleted, result.final) == (DELTAS, (), True)
    assert three_inserts.visible() == sorted([*DELTAS, OUTPUT])
    assert isinstance(steps.finish(), Trouble)
    reader = read_lock(three_inserts)
    (result,) = steps.delete(purge=True)
    assert (result.reason, result.final) == (READERS_BUSY, False)
    assert three_inserts.visible() == sorted([*DELTAS, OUTPUT])
    end(three_inserts, locks=[reader])
    (result,) = steps.delete(purge=True)
    assert (sorted(result.deleted), result.final) == (DELTAS, True)
    assert three_inserts.visible() == [OUTPUT]
    assert steps.finish() is None
    assert three_inserts.locks() == []


@pytest.mark.parametrize("server", ["4.0.1-versitygw"], indirect=True, scope="session")
def test_nothing_is_published_where_an_aborted_upload_can_be_completed(
    three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]
) -> None:
    """Nothing could stop a driver there that wakes up after its attempt was ended."""
    with pytest.raises(JobError, match="an upload that was aborted is completed"):
        compact(three_inserts)
    assert three_inserts.visible() == DELTAS
