"""How pytest spreads the tests over processes with `--dist loadscope`, as sandbox/test.sh runs them; its options."""

import re

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# NB: no deadlines. On a busy machine any example may take long, and tests assert no times.
settings.register_profile("compaction-operator", deadline=None)
settings.load_profile("compaction-operator")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--hive4", default="4.0.1", help="the Hive 4 of tests/integration/metastore and oracle: 4.0.1, 4.1.0 or 4.2.0"
    )


_RELEASE = re.compile(r"\[([0-9.]+)[-\]]")


class ByFixtures(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Keeps together what shares an expensive fixture: a cluster, a plane, metastores, a JVM. Unit tests: by module.

    The tests of each release of Hudi have a JVM of their own, and their ids have the release as the first parameter.
    """

    def _split_scope(self, nodeid: str) -> str:
        module, _, name = nodeid.partition("::")
        kind, *subject = module.removeprefix("tests/").split("/")[:-1]
        if subject == ["hudi"] and (release := _RELEASE.search(name)):
            subject.append(release[1])
        return module if kind == "unit" else "/".join([kind, *subject])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    return ByFixtures(config, log) if config.getoption("dist") == "loadscope" else None
