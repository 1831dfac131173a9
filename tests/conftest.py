"""Which tests must share a process where pytest runs them side by side (`--dist loadgroup`, sandbox/test.sh)."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group what shares an expensive fixture: a cluster, a plane, metastores, a JVM. Unit tests share nothing."""
    for item in items:
        group = _group(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


def _group(item: pytest.Item) -> str | None:
    kind, subject, *_ = item.path.relative_to(HERE).parts
    if kind == "unit":
        return None
    if kind == "e2e":
        return kind
    if subject == "hudi" and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        return f"hudi {item.callspec.params.get('hudi', '')}"
    return subject
