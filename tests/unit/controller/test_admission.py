"""Whose turn it is: who may not touch a table holds nobody up there."""

from compaction_operator.controller.admission import Admission
from compaction_operator.controller.cache import Cache
from tests.unit.controller.sandbox import CONFIG, NOON, cleanup_raw, compaction_raw


def waits_for(namespace: str) -> str | None:
    """Whom a compaction waits for beside an unsettled cleanup of its table in a namespace."""
    cache = Cache()
    raw = cleanup_raw("one")
    raw["metadata"]["namespace"] = namespace
    cache.put_cleanup(raw)
    mine = cache.put_compaction(compaction_raw())
    assert mine is not None
    return Admission(cache, CONFIG).waits_for(mine, NOON)


def test_an_unsettled_cleanup_holds_the_table() -> None:
    assert "cleanup default/one" in (waits_for("default") or "")


def test_a_cleanup_of_a_namespace_without_the_right_holds_up_nobody() -> None:
    """It is never settled."""
    assert waits_for("stranger") is None
