"""Where a table and its partitions may lie: whatever the metastore says, never among the files of something else."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.api.config import Volume, Warehouse
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.places import misplaced, require_allowed, verdicts
from compaction_operator.metastore import ORC_INPUT_FORMAT, ORC_SERDE, Partition, Refused, Resolved, Table, Target
from tests.support.metastore import FakeMetastore, serving
from tests.unit.driver.support import REQUEST

HOME = "file:/w/sales.db/orders"
OTHER = {"hr.salaries": "file:/w/hr.db/salaries"}


def table(location: str = HOME, *, keys: tuple[str, ...] = ("p",)) -> Table:
    return Table("sales", "orders", location, 1, ORC_INPUT_FORMAT, ORC_SERDE, (), keys)


def refused(
    partitions: Mapping[str, str],
    *,
    others: Mapping[str, str] = OTHER,
    allowed: Sequence[str] = (),
    location: str = HOME,
) -> dict[str, tuple[Reason, str]]:
    found = verdicts(table(location), partitions, others=others, allowed=allowed)
    return {partition: (verdict.reason, str(verdict)) for partition, verdict in found.items()}


def test_partitions_in_places_of_their_own_are_compacted_wherever_they_lie() -> None:
    """Below their table, or elsewhere; beside other tables, and with a name that begins like another's."""
    places = {"p=1": f"{HOME}/p=1", "p=10": f"{HOME}/p=10", "p=2": "/archive/p=2", "p=3": "file:///w/hr.db/salaries2"}
    assert refused(places, others=OTHER | {"sales.orders2": f"{HOME}2"}, allowed=["/w", "file:///archive/"]) == {}
    assert refused({"": HOME}) == {}


@pytest.mark.parametrize(
    "location", ["file:///w/hr.db/salaries", "/w/hr.db/salaries/", "file:/w/hr.db//salaries/year=2024"]
)
def test_a_partition_in_another_tables_directory_is_refused(location: str) -> None:
    """However it is spelled; the message has both places. The other partitions go on."""
    found = refused({"p=1": f"{HOME}/p=1", "p=2": location})
    assert set(found) == {"p=2"}
    reason, message = found["p=2"]
    assert reason is Reason.UNSUPPORTED_TABLE
    assert message.startswith(f"partition p=2 of table sales.orders lies at {location}, and table hr.salaries at")
    assert OTHER["hr.salaries"] in message


@pytest.mark.parametrize("other", [HOME, "/w/sales.db", "/w/sales.db/"])
@pytest.mark.parametrize("partitions", [{"": HOME}, {"p=1": f"{HOME}/p=1"}])
def test_a_table_in_another_tables_directory_is_refused(partitions: Mapping[str, str], other: str) -> None:
    found = refused(partitions, others={"sales.copy": other})
    assert set(found) == set(partitions)
    assert all(f"table sales.copy at {other}" in message for _, message in found.values())


def test_below_its_own_table_a_partition_is_its_own() -> None:
    """A user may have made a table of one partition's directory to look at its files."""
    assert refused({"p=1": f"{HOME}/p=1"}, others={"tmp.look": f"{HOME}/p=1"}) == {}


@pytest.mark.parametrize(("one", "other"), [("/a/x", "file:/a/x/"), ("/a", "/a/x"), ("/a/x/y", "/a/x")])
def test_partitions_in_one_place_or_one_in_the_other_are_refused_both(one: str, other: str) -> None:
    found = refused({"p=1": one, "p=2": other, "p=3": f"{HOME}/p=3"})
    assert {partition: reason for partition, (reason, _) in found.items()} == dict.fromkeys(
        ("p=1", "p=2"), Reason.UNSUPPORTED_TABLE
    )
    assert all(one in message and other in message for _, message in found.values())


@pytest.mark.parametrize("location", [HOME, "/w/sales.db", "/"])
def test_a_partition_around_its_own_table_is_refused(location: str) -> None:
    reason, message = refused({"p=1": location}, others={})["p=1"]
    assert reason is Reason.UNSUPPORTED_TABLE
    assert f"its table's own directory at {HOME}" in message


@pytest.mark.parametrize("location", ["/elsewhere/p=2", "/wide/p=2"])
@pytest.mark.parametrize("allowed", [["/w"], ["/elsewhere/..", "file:/w/"]])
def test_what_the_warehouse_does_not_allow_is_refused(location: str, allowed: list[str]) -> None:
    found = refused({"p=1": f"{HOME}/p=1", "p=2": location}, allowed=allowed)
    assert set(found) == {"p=2"}
    reason, message = found["p=2"]
    assert reason is Reason.NOT_ALLOWED
    assert location in message


@pytest.mark.parametrize("location", ["gs://bucket/w/p=1", "abfs://c@account/w/p=1", "/w/../etc", "p=1"])
@pytest.mark.parametrize("allowed", [[], ["/w"]])
def test_a_storage_that_is_not_supported_is_refused_by_its_name(location: str, allowed: list[str]) -> None:
    found = refused({"p=1": location, "p=2": f"{HOME}/p=2"}, others={"sales.copy": "gs://bucket/w"}, allowed=allowed)
    assert set(found) == {"p=1"}
    reason, message = found["p=1"]
    assert reason is Reason.UNSUPPORTED_TABLE
    assert message.startswith("partition p=1 of table sales.orders: ")
    assert location in message


def test_a_table_whose_own_directory_is_not_supported_hides_no_overlap() -> None:
    """Its location may have been changed meanwhile; its partitions are where they were."""
    places = {"p=1": "/w/hr.db/salaries/x", "p=2": "/a", "p=3": "/a/b", "p=4": "/c"}
    assert set(refused(places, location="gs://bucket/orders")) == {"p=1", "p=2", "p=3"}


ON_HDFS = "hdfs://nn:8020/w/sales.db/orders"
NAMES_OF_HDFS = ["hdfs://nn:8020", "hdfs://nn", "hdfs://ns", "hdfs://", "HDFS://NN:8020"]


@pytest.mark.parametrize("name", NAMES_OF_HDFS)
@pytest.mark.parametrize(("path", "other"), [("/a/x", "/a/x"), ("/a/x/", "/a"), ("/a", "/a/x/y")])
def test_another_name_of_an_hdfs_hides_no_overlap(name: str, path: str, other: str) -> None:
    """Only the cluster's configuration says whether a name service and a host are one."""
    found = refused({"p=1": f"hdfs://nn:8020{path}", "p=2": f"{name}{other}"}, location=ON_HDFS)
    assert set(found) == {"p=1", "p=2"}
    assert set(refused({"p=1": f"{name}{path}"}, others={"hr.x": f"hdfs://ns{path}"}, location=ON_HDFS)) == {"p=1"}
    assert refused({"p=1": f"{name}/a/x"}, others={"hr.x": "hdfs://ns/a/y"}, location=ON_HDFS) == {}


def test_in_viewfs_a_path_says_nothing_about_a_path_elsewhere() -> None:
    """A mount table leads /data to any folder of any cluster, and each viewfs has one of its own."""
    inside = {"p=1": "viewfs://one/data/p=1", "p=2": "viewfs://one/data/p=2"}
    home = "viewfs://one/w/sales.db/orders"
    assert refused(inside, others={"hr.x": "viewfs://one/x", "hr.y": "/y", "hr.z": "file:/z"}, location=home) == {}
    for other in ("hdfs://nn/x", "viewfs://two/x", "hdfs:///x"):
        assert set(refused(inside, others={"hr.x": other}, location=home)) == {"p=1", "p=2"}
        assert set(refused({**inside, "p=3": other}, others={}, location=home)) == {"p=1", "p=2", "p=3"}
        found = refused(inside, others={}, location=other)
        assert {message.partition(", and ")[2] for _, message in found.values()} == {
            f"its table's own directory at {other}: their files cannot be told apart"
        }


@pytest.mark.parametrize("name", ["s3", "s3a", "s3n", "S3A"])
def test_s3_has_three_names_for_one_bucket(name: str) -> None:
    """Which of them a location has depends on who wrote it."""
    home = "s3a://bucket/w/sales.db/orders"
    assert set(refused({"p=1": f"{name}://bucket/w/p"}, others={"hr.x": "s3a://bucket/w"}, location=home)) == {"p=1"}
    assert set(refused({"p=1": f"{name}://bucket/p", "p=2": "s3n://bucket/p/x"}, location=home)) == {"p=1", "p=2"}
    assert refused({"p=1": f"{name}://bucket/w/p"}, allowed=["s3n://bucket/w/"], location=home) == {}


def test_a_bucket_is_a_place_of_its_own() -> None:
    """The same key in another bucket, or the same path on HDFS, is another object."""
    home = "s3a://bucket/w/sales.db/orders"
    others = {"a.a": "s3a://other/w/p", "b.b": "/w/p", "c.c": "hdfs://bucket/w/p", "d.d": "viewfs://bucket/w/p"}
    assert refused({"p=1": "s3a://bucket/w/p"}, others=others, location=home) == {}
    for folder in ("s3a://other/w", "/w", "hdfs://bucket/w", "s3a://bucket/wide"):
        reason, message = refused({"p=1": "s3://bucket/w/p"}, allowed=[folder], location=home)["p=1"]
        assert reason is Reason.NOT_ALLOWED
        assert "it lies at s3://bucket/w/p" in message


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("s3a://bucket/w//p", "s3a://bucket/w//p has an empty name"),
        ("s3a://bucket/w/../p", "'..' in '/w/../p'"),
        ("s3a:///w", "has no bucket"),
        ("s3n://AKIA:CANARY@bucket/w", "has no bucket"),
    ],
)
def test_what_is_no_plain_key_of_a_bucket_is_refused(location: str, why: str) -> None:
    """On S3 an empty name is part of a key. What an old location may have of a secret is not repeated."""
    reason, message = refused({"p=1": location}, others={"hr.x": location}, allowed=["s3a://bucket"])["p=1"]
    assert reason is Reason.UNSUPPORTED_TABLE
    assert why in message
    assert "CANARY" not in message


def test_a_file_of_the_same_path_is_another_place() -> None:
    places = {"p=1": "/w/p=1", "p=2": "hdfs://nn/w/p=1"}
    assert refused(places, others={"hr.x": "viewfs://one/w/p=1"} | OTHER, location="/t") == {
        "p=2": refused({"p=2": places["p=2"]}, others={"hr.x": "viewfs://one/w/p=1"}, location="/t")["p=2"]
    }
    assert refused(places, others={}, location="/t") == {}


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("hdfs://nn/w/p", "/w"),
        ("/w/p", "hdfs://nn/w"),
        ("hdfs://evil/w/p", "hdfs://nn/w"),
        ("hdfs://nn:8020/w/p", "hdfs://nn/w"),
        ("hdfs:///w/p", "hdfs://nn/w"),
        ("viewfs://nn/w/p", "hdfs://nn/w"),
        ("hdfs://nn/wide/p", "hdfs://nn/w"),
    ],
)
def test_only_the_very_store_is_allowed(location: str, folder: str) -> None:
    """Another host may be another cluster: the same path there is not what the administrator allowed."""
    reason, message = refused({"p=1": location}, others={}, allowed=[folder], location=location)["p=1"]
    assert reason is Reason.NOT_ALLOWED
    assert message.endswith(f"it lies at {location}, and the warehouse allows only locations below: {folder}")
    assert refused({"p=1": location}, others={}, allowed=[folder, location], location=f"{location}/..") == {}


PATHS = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


@given(st.lists(PATHS, max_size=6))
def test_no_two_partitions_share_a_file(paths: list[str]) -> None:
    """Whatever the metastore says, no place of those that are compacted lies in that of another partition."""
    places = {f"p={number}": path for number, path in enumerate(paths)}
    found = verdicts(table("/table"), places, others={}, allowed=())
    for name, path in places.items():
        rivals = [other for key, other in places.items() if key != name]
        shares = any(f"{other}/".startswith(f"{path}/") or f"{path}/".startswith(f"{other}/") for other in rivals)
        assert (name in found) == shares


def metastore_of(tables: Mapping[str, Mapping[str, str]], partitions: Mapping[str, str] | None = None) -> FakeMetastore:
    """A metastore with sales.orders, its partitions, and other tables by database."""
    known = [
        replace(table(place), database=database, name=name)
        for database, in_it in tables.items()
        for name, place in in_it.items()
    ]
    metastore = serving(table(), *known)
    for name, location in (partitions or {}).items():
        metastore.partitions["sales.orders"][name] = Partition(name, (name,), location, 1)
    return metastore


def left_alone(
    metastore: FakeMetastore, *meant: str, location: str = HOME, warehouse: Warehouse = REQUEST.warehouse
) -> dict[str, Refused]:
    """What must be left alone of what was asked for: some of the partitions, or the unpartitioned table."""
    resolved = Resolved(table(location, keys=()), (Target("", location, 1),))
    if meant:
        known = metastore.partitions["sales.orders"]
        resolved = Resolved(table(location), tuple(Target(name, known[name].location, 1) for name in meant))
    return misplaced(metastore.client(), resolved, warehouse)


def test_a_partition_that_was_not_asked_for_is_in_the_way_too() -> None:
    metastore = metastore_of({}, {"p=1": f"{HOME}/p=1", "p=2": f"{HOME}/p=1"})
    assert set(left_alone(metastore, "p=1")) == {"p=1"}


def test_where_all_lie_in_their_usual_places_no_other_table_is_asked_for() -> None:
    """A database may have tens of thousands of tables. One that was put here is refused itself."""
    metastore = metastore_of({"sales": {"orders": HOME, "twin": HOME}}, {"p=1": f"{HOME}/p=1"})
    assert left_alone(metastore, "p=1") == {}
    assert metastore.asked("table_locations") == []


def test_one_partition_in_an_unusual_place_is_enough_to_look_at_other_tables() -> None:
    """Its table lies where Hive puts it."""
    stolen = "file:/w/sales.db/customers/p=2"
    metastore = metastore_of({"sales": {"customers": "/w/sales.db/customers"}}, {"p=1": f"{HOME}/p=1", "p=2": stolen})
    found = left_alone(metastore, "p=1", "p=2")
    assert set(found) == {"p=2"}
    assert "table sales.customers at /w/sales.db/customers" in str(found["p=2"])


@pytest.mark.parametrize(
    ("stolen", "databases"),
    [
        ("file:/w/HR.db/salaries", ["hr", "sales"]),
        ("/w/salaries", ["default", "sales"]),
        ("/w/sales.db/x/hr.db/salaries", ["hr", "sales"]),
    ],
)
def test_tables_of_each_database_on_the_way_are_looked_at(stolen: str, databases: list[str]) -> None:
    """Users who may alter a table of theirs can make it lie anywhere."""
    owner = databases[0]
    metastore = metastore_of({"sales": {"orders": stolen}, owner: {"salaries": stolen.removeprefix("file:")}})
    found = left_alone(metastore, location=stolen)
    assert f"table {owner}.salaries at {stolen.removeprefix('file:')}" in str(found[""])
    assert sorted(metastore.asked("table_locations")) == databases


def test_a_usual_path_on_another_hdfs_is_not_the_usual_place() -> None:
    home = "hdfs://ns/w/sales.db/orders"
    others = {"sales": {"customers": "hdfs://old/w/sales.db"}}
    metastore = metastore_of(others, {"p=1": f"{home}/p=1", "p=2": "hdfs://old/w/sales.db/orders/p=2"})
    metastore.tables["sales.orders"] = replace(metastore.tables["sales.orders"], location=home)
    assert left_alone(metastore, "p=1", location=home) == {}
    assert set(left_alone(metastore, "p=1", "p=2", location=home)) == {"p=1", "p=2"}


def test_a_table_is_not_in_its_own_way() -> None:
    metastore = metastore_of({"sales": {"orders": HOME, "customers": "file:/w/sales.db/customers"}})
    assert left_alone(metastore) == {}


def warehouse(*locations: str, mount: str | None = "/w") -> Warehouse:
    volume = Volume(claim_name="w", mount_path=mount) if mount else None
    return REQUEST.warehouse.model_copy(update={"volume": volume, "locations": locations})


def test_tables_must_lie_below_the_volume_or_below_what_is_listed() -> None:
    require_allowed(table(), warehouse())
    require_allowed(table(), warehouse("/other", "file:///w/sales.db"))
    require_allowed(table(), warehouse(mount=None))
    for narrow in (warehouse(mount="/mnt"), warehouse("/w/hr.db"), warehouse("/w/sales.db/orders/p=1")):
        with pytest.raises(Refused, match=HOME) as caught:
            require_allowed(table(), narrow)
        assert caught.value.reason is Reason.NOT_ALLOWED
        assert set(left_alone(metastore_of({}), warehouse=narrow)) == {""}
