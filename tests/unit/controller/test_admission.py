"""Whose turn it is: a resource without the right to a table delays no other one on it."""

import pytest

from compaction_operator.api.config import Metastore, Warehouse
from compaction_operator.controller.compaction.turns import Turn, Turns
from compaction_operator.controller.kube.cache import Cache
from tests.unit.controller.sandbox import CONFIG, NOON, cleanup_raw, compaction_raw


def warehouse(name: str, *uris: str) -> Warehouse:
    metastore = Metastore(uris=tuple(f"thrift://{uri}:9083" for uri in uris))
    return CONFIG.warehouses[0].model_copy(update={"name": name, "metastore": metastore})


@pytest.mark.parametrize(("sea", "same"), [(("metastore",), True), (("METASTORE", "other"), True), (("other",), False)])
def test_two_warehouses_of_one_metastore_have_one_attempt_per_table(sea: tuple[str, ...], same: bool) -> None:
    """Also while it is only claimed; and the one that waits is woken when the other is over."""
    config = CONFIG.model_copy(update={"warehouses": (*CONFIG.warehouses, warehouse("sea", *sea))})
    cache = Cache(config.metastores())
    turns = Turns(cache, config)
    older, younger = (
        cache.put_compaction(compaction_raw(name, created=NOON.replace(minute=minute), warehouse=of))
        for minute, (name, of) in enumerate([("older", "lake"), ("younger", "sea")])
    )
    assert older is not None
    assert younger is not None
    waits = "compaction default/older, which comes first" if same else None
    assert turns.look(younger, NOON).waits_for == waits
    turns.claim(older, ticks=0.0)
    works = "compaction default/older, which works on the same table" if same else None
    assert turns.look(younger, NOON).waits_for == works
    assert turns.wake(NOON) == ([] if same else [younger.key])
    turns.release(older)
    cache.drop_compaction(older.key, older.meta.uid)
    assert set(turns.wake(NOON)) == ({younger.key} if same else set())
    assert turns.look(younger, NOON) == Turn(None, has_come=True)


@pytest.mark.parametrize("sea", [("metastore",), ("other",)])
def test_an_unsettled_cleanup_holds_the_table_in_all_warehouses_of_its_metastore(sea: tuple[str, ...]) -> None:
    config = CONFIG.model_copy(update={"warehouses": (*CONFIG.warehouses, warehouse("sea", *sea))})
    cache = Cache(config.metastores())
    cache.put_cleanup(cleanup_raw("one", warehouse="sea"))
    mine = cache.put_compaction(compaction_raw())
    assert mine is not None
    waits = Turns(cache, config).look(mine, NOON).waits_for
    assert (waits is not None) == (sea == ("metastore",))


def test_warehouses_that_share_a_process_are_of_one_metastore() -> None:
    """However many there are in between, and in whichever order they come."""
    chain = (warehouse("a", "x"), warehouse("b", "y"), warehouse("c", "z"), warehouse("d", "x", "y"))
    config = CONFIG.model_copy(update={"warehouses": chain})
    assert config.metastores() == {"a": "a", "b": "a", "d": "a", "c": "c"}


def waits_for(namespace: str) -> str | None:
    """Whom a compaction waits for beside an unsettled cleanup of its table in a namespace."""
    cache = Cache()
    raw = cleanup_raw("one")
    raw["metadata"]["namespace"] = namespace
    cache.put_cleanup(raw)
    mine = cache.put_compaction(compaction_raw())
    assert mine is not None
    return Turns(cache, CONFIG).look(mine, NOON).waits_for


def test_an_unsettled_cleanup_holds_the_table() -> None:
    assert "cleanup default/one" in (waits_for("default") or "")


def test_a_cleanup_of_a_namespace_without_the_right_delays_no_compaction() -> None:
    """It is never settled, so it must not hold the table."""
    assert waits_for("stranger") is None


def test_who_was_woken_while_the_table_was_still_claimed_is_woken_again() -> None:
    """The end of the older one is written before its claim is released."""
    cache = Cache()
    turns = Turns(cache, CONFIG)
    older, younger = (cache.put_compaction(compaction_raw(name)) for name in ("a", "b"))
    assert older is not None
    assert younger is not None
    turns.claim(older, ticks=0.0)
    assert turns.look(younger, NOON).waits_for is not None
    cache.drop_compaction(older.key, older.meta.uid)
    cache.freed.clear()
    turns.release(older)
    assert younger.key in turns.wake(NOON)
