"""The listings of the openLooKeng document and of the blog's table, to the name, on a real cluster and metastore.

What does not depend on each other is applied at once and waited for where it is looked at.
"""

import json
from dataclasses import dataclass

import pytest
from sandbox.harness import expected
from sandbox.harness.compactions import ONE_EXECUTOR
from sandbox.harness.tables import FIXTURES, TABLE_TXN_001, TRY_IT, HiveTable, fourth_write

from tests.e2e.scene import Scene

MANY = 360.0
"""Seconds for a compaction beside all the others."""


@dataclass(frozen=True)
class Seed:
    """A table, the rows that a reader saw before any compaction, and its first compaction, which is under way."""

    table: HiveTable
    rows: list[str]
    compaction: str


@pytest.fixture(scope="module")
def seeds(shared_scene: Scene) -> dict[str, Seed]:
    """All tables with their first compactions."""
    scene = shared_scene
    tables = {name: scene.table(TABLE_TXN_001, name) for name in ("chain", "major", "updated")}
    tables |= {name: scene.table(TRY_IT, name) for name in ("blog_minor", "blog_major", "one_partition")}
    scene.warehouse.writer.write(tables["updated"], fourth_write())
    rows = {name: scene.warehouse.rows(table) for name, table in tables.items()}
    applied = {name: scene.compact(tables[name], "Minor") for name in ("chain", "updated", "blog_minor")}
    applied["blog_major"] = scene.compact(tables["blog_major"], "Major", spark=ONE_EXECUTOR)
    applied["major"] = scene.compact(tables["major"], "Major")
    applied["one_partition"] = scene.compact(tables["one_partition"], "Major", partitions=["prt='p1'"])
    return {name: Seed(tables[name], rows[name], applied[name]) for name in applied}


def check(
    scene: Scene,
    seed: Seed,
    *,
    outputs: dict[str, frozenset[str]],
    obsolete: dict[str, frozenset[str]],
    compaction: str | None = None,
) -> None:
    """Check journal, directories and rows once a compaction and its cleanup are through."""
    name = compaction or seed.compaction
    scene.compactions.wait_succeeded(name, timeout=MANY)
    assert scene.published(name) == (outputs, obsolete)
    scene.cleaned(name)
    assert scene.names(seed.table) == outputs
    assert scene.warehouse.rows(seed.table) == seed.rows


def test_minor_of_inserts_then_major_then_minor(shared_scene: Scene, seeds: dict[str, Seed]) -> None:
    """Three inserts become a delta, then that a base; a minor right after a major has nothing to do."""
    scene, seed = shared_scene, seeds["chain"]
    check(scene, seed, outputs={"": expected.AFTER_INSERTS_MINOR}, obsolete={"": expected.INSERTS})
    major = scene.compact(seed.table, "Major")
    base = {"": expected.AFTER_INSERTS_MAJOR}
    check(scene, seed, compaction=major, outputs=base, obsolete={"": expected.AFTER_INSERTS_MINOR})
    again = scene.compact(seed.table, "Minor")
    assert scene.published(again) == ({}, {})
    verdict = scene.verdict(again)
    assert verdict.reason == "NothingToCompact"
    assert "there is no delta above base_0000003" in verdict.message
    assert scene.names(seed.table) == base


def test_major_of_inserts(shared_scene: Scene, seeds: dict[str, Seed]) -> None:
    """The base makes the three deltas obsolete."""
    check(
        shared_scene,
        seeds["major"],
        outputs={"": expected.AFTER_INSERTS_MAJOR},
        obsolete={"": expected.INSERTS},
    )


def test_minor_with_deletes(shared_scene: Scene, seeds: dict[str, Seed]) -> None:
    """A fourth write that updates: one delta and one delete delta over all four."""
    check(
        shared_scene,
        seeds["updated"],
        outputs={"": expected.AFTER_UPDATE_MINOR},
        obsolete={"": expected.INSERTS | expected.UPDATE},
    )


def test_major_after_minor_with_the_old_deltas_still_there(scene: Scene) -> None:
    """While a reader keeps the first deltas, a major makes them and the minor's delta obsolete."""
    table = scene.table(TABLE_TXN_001)
    seed = Seed(table, scene.warehouse.rows(table), "")
    reader = scene.lock(table)
    minor, major = scene.compact(table, "Minor"), scene.compact(table, "Major")
    obsolete = {"": expected.INSERTS | expected.AFTER_INSERTS_MINOR}
    base = {"": expected.AFTER_INSERTS_MAJOR}
    assert scene.published(minor) == ({"": expected.AFTER_INSERTS_MINOR}, {"": expected.INSERTS})
    assert scene.published(major) == (base, obsolete)
    assert scene.names(table) == {"": obsolete[""] | base[""]}
    scene.unlock(reader)
    scene.cleaned(minor)
    check(scene, seed, compaction=major, outputs=base, obsolete=obsolete)


def test_the_blogs_table_minor(shared_scene: Scene, seeds: dict[str, Seed]) -> None:
    """Each partition by its own write ids; the rows with their ROW__IDs are the blog's."""
    seed = seeds["blog_minor"]
    assert blog(seed.rows) == blog_rows()
    check(shared_scene, seed, outputs=dict(expected.TRY_IT_AFTER_MINOR), obsolete=dict(expected.TRY_IT))


def test_the_blogs_table_major(shared_scene: Scene, seeds: dict[str, Seed]) -> None:
    """Merged by an executor pod; all rows of p1 are deleted, so it ends as a base without rows."""
    seed = seeds["blog_major"]
    check(shared_scene, seed, outputs=dict(expected.TRY_IT_AFTER_MAJOR), obsolete=dict(expected.TRY_IT))
    assert blog(shared_scene.warehouse.rows(seed.table)) == blog_rows()
    (base,) = expected.TRY_IT_AFTER_MAJOR["prt=p1"]
    found = shared_scene.warehouse.toolbox.names(f"{seed.table.location}/prt=p1/{base}")
    assert found == {"_orc_acid_version", "_metadata_acid", "bucket_00000"}


def test_one_partition_of_the_blogs_table(shared_scene: Scene, seeds: dict[str, Seed]) -> None:
    """A partition filter leaves the other partitions as they are."""
    scene, seed = shared_scene, seeds["one_partition"]
    scene.compactions.wait_succeeded(seed.compaction, timeout=MANY)
    outputs = {"prt=p1": expected.TRY_IT_AFTER_MAJOR["prt=p1"]}
    assert scene.published(seed.compaction) == (outputs, {"prt=p1": expected.TRY_IT["prt=p1"]})
    scene.cleaned(seed.compaction)
    assert scene.names(seed.table) == {**expected.TRY_IT, **outputs}
    assert scene.warehouse.rows(seed.table) == seed.rows


def blog(rows: list[str]) -> list[tuple[str, ...]]:
    """Return the rows of rows.py as Hive prints them: columns, partition, write id, bucket and row id."""
    found = [json.loads(row) for row in rows]
    return sorted(
        (
            *(str(value) for value in row["row"].values()),
            row["partition"].removeprefix("prt="),
            *(str(row[key]) for key in ("writeid", "bucket", "rowid")),
        )
        for row in found
    )


def blog_rows() -> list[tuple[str, ...]]:
    """Return `select *, ROW__ID from try_it` as real Hive answered it."""
    answer = json.loads((FIXTURES / "hive-3.1.3" / "try_it" / "expected-major-before.json").read_text())
    ids = [json.loads(row[-1]) for row in answer["rows"]]
    return sorted(
        (*row[:-1], *(str(identity[key]) for key in ("writeid", "bucketid", "rowid")))
        for row, identity in zip(answer["rows"], ids, strict=True)
    )
