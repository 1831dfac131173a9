"""One JVM after the other, each with Spark and one of Hudi's bundles; tables are copies of a few written once."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import ONE_CLOCK, Ordering, SmallTable
from sandbox.hudi.zookeeper import LOCK_KEY, ZooKeeper

from compaction_operator.hudi import BUNDLES
from compaction_operator.hudi.jvm.probe import require_all_calls
from tests.integration.hudi.job import Jobs
from tests.integration.hudi.other_client import OtherClient

VERSIONS = tuple(BUNDLES)
NEWEST = {version: str(max(serves)) for version, serves in BUNDLES.items()}
"""The version of the tables that each version of Hudi writes by itself."""

BOTH_ORDERINGS = pytest.mark.parametrize("ordering", list(Ordering), ids=lambda ordering: ordering.name)

MakeTable = Callable[..., SmallTable]
Shared = Callable[[str, Callable[[Path], SmallTable]], SmallTable]
MakeOtherClient = Callable[..., OtherClient]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only(version): on one version of Hudi, as the others have not got it")
    config.addinivalue_line(
        "markers",
        "metadata_table: on tables with their metadata table, as Hudi makes them by default, or (False) without",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "hudi" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("only")
        metafunc.parametrize("hudi", [only.args[0]] if only else VERSIONS, indirect=True, scope="package")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark the tests of this folder, and put those of one version together at last: no JVM is started twice."""
    for item in filter(_is_ours, items):
        item.add_marker(pytest.mark.hudi)
    # NB: `-m hudi` selects meanwhile.
    yield
    places = [place for place, item in enumerate(items) if _is_ours(item)]
    ours = sorted((items[place] for place in places), key=_version)
    for place, item in zip(places, ours, strict=True):
        items[place] = item


def _is_ours(item: pytest.Item) -> bool:
    return "tests/integration/hudi/" in item.path.as_posix()


def _version(item: pytest.Item) -> str:
    assert isinstance(item, pytest.Function)
    return str(item.callspec.params.get("hudi", "")) if hasattr(item, "callspec") else ""


@pytest.fixture(scope="package")
def hudi(request: pytest.FixtureRequest) -> Iterator[HudiSession]:
    """Spark with the bundle of one version of Hudi. It ends before tests that want a Spark of their own."""
    with HudiSession(request.param) as session, pytest.MonkeyPatch.context() as patch:
        # What a bundle has does not change, and each look takes over a second. test_probe looks each time.
        patch.setattr("compaction_operator.hudi.jvm.client.require_all_calls", cache(require_all_calls))
        yield session


@pytest.fixture(scope="package")
def shared(hudi: HudiSession, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """Write a table once for all tests that take a copy of it, by its name. A table holds no absolute path."""
    folder = tmp_path_factory.mktemp(f"hudi-{hudi.version}")
    made: dict[str, SmallTable] = {}

    def share(name: str, write: Callable[[Path], SmallTable]) -> SmallTable:
        if name not in made:
            made[name] = write(folder / name)
        return made[name]

    return share


@pytest.fixture(scope="package")
def seeds(hudi: HudiSession, shared: Shared) -> MakeTable:
    """Make a table of each kind once: a base file and four log files. The third log file contains late rows."""

    def seed(ordering: Ordering, version: str, *, metadata_table: bool = False) -> SmallTable:
        def write(location: Path) -> SmallTable:
            options = {"hoodie.write.table.version": version, "hoodie.metadata.enable": str(metadata_table).lower()}
            table = SmallTable(hudi.spark, location, ordering=ordering, options=options)
            table.upsert(range(200), 10)
            for ids, ts in ((range(60), 20), (range(20, 80), 30), (range(40, 70), 15), (range(50, 90), 40)):
                table.upsert(ids, ts)
            return table

        return shared(f"{ordering}-{version}{'-with-metadata' * metadata_table}", write)

    return seed


@pytest.fixture
def make_table(hudi: HudiSession, seeds: MakeTable, tmp_path: Path, request: pytest.FixtureRequest) -> MakeTable:
    """Make a table of 200 rows in one file group, a base file and four log files, of the bundle's newest version.

    Tests marked `metadata_table` get it with its metadata table; `metadata_table(False)` takes that back.
    """
    number, marker = count(), request.node.get_closest_marker("metadata_table")
    with_metadata = marker is not None and marker.args != (False,)

    def make(
        ordering: Ordering = Ordering.EVENT_TIME, *, version: str | None = None, options: dict[str, str] | None = None
    ) -> SmallTable:
        seed = seeds(ordering, version or NEWEST[hudi.version], metadata_table=with_metadata)
        return seed.copy_to(tmp_path / f"table-{next(number)}", options)

    return make


@pytest.fixture
def table(make_table: MakeTable) -> SmallTable:
    """A table of 200 rows, by event time, in one file group: a base file and four log files."""
    return make_table()


@pytest.fixture
def other_client(hudi: HudiSession) -> Iterator[MakeOtherClient]:
    """Make a client of a table that is not the operator's own."""
    made: list[OtherClient] = []

    def make(table: SmallTable, options: dict[str, str] | None = None) -> OtherClient:
        made.append(OtherClient(hudi, table, options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture(scope="package")
def locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The options of a lock provider that holds between processes, and that these have one clock."""
    with ZooKeeper(tmp_path_factory.mktemp("locks") / "zookeeper") as server:
        yield server.lock_options() | {LOCK_KEY: "small", "hoodie.write.lock.client.num_retries": "2"} | ONE_CLOCK


@pytest.fixture
def jobs(hudi: HudiSession, locks: dict[str, str]) -> Jobs:
    """The operator's jobs."""
    return Jobs(hudi, locks)
