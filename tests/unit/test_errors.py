"""The tree that `errors` prints is the tree that there is, and the reasons beside it are those that are shown."""

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

import compaction_operator
from compaction_operator import errors
from compaction_operator.api.request import Reason
from compaction_operator.controller.work import NotAllowedError, UnknownWarehouseError, _trouble
from compaction_operator.driver.errors import PARTITION_ERRORS, JobError, job_error
from compaction_operator.hudi import HudiError
from compaction_operator.metastore import MetastoreUnavailable
from compaction_operator.orc import OrcError

LINE = re.compile(r"(?P<indent> {4,})(?P<name>\w+)(?P<value_error> \(ValueError\))? *(?P<reason>.*)")
DEPTH = 4


def _printed() -> list[re.Match[str]]:
    return [line for line in map(LINE.fullmatch, (errors.__doc__ or "").splitlines()) if line]


def _tree(of: type[BaseException], depth: int = 1) -> Iterator[tuple[int, type[BaseException]]]:
    yield depth, of
    for below in sorted(set(of.__subclasses__()), key=lambda one: one.__name__):
        if not below.__name__.startswith("_"):
            yield from _tree(below, depth + 1)


def _all() -> dict[str, type[BaseException]]:
    """Return every public exception of the project, in whichever module."""
    for module in pkgutil.walk_packages(compaction_operator.__path__, "compaction_operator."):
        import_module(module.name)
    found = (one for _, one in _tree(BaseException) if one.__module__.startswith("compaction_operator."))
    return {one.__name__: one for one in found}


def _reasons() -> dict[str, str]:
    """Return the printed reasons; an exception without its own has that of the one above it."""
    above, found = dict[int, str](), dict[str, str]()
    for line in _printed():
        depth = len(line["indent"]) // DEPTH
        above[depth] = found[line["name"]] = line["reason"] or above.get(depth - 1, "")
    return found


def _error(kind: type[BaseException]) -> Exception:
    error = kind("/place", "why") if issubclass(kind, OrcError) else kind("why")
    assert isinstance(error, Exception)
    return error


def test_the_printed_tree_is_that_of_the_classes() -> None:
    every = _all()
    printed = [(len(line["indent"]) // DEPTH, line["name"], bool(line["value_error"])) for line in _printed()]
    tree = list(_tree(errors.OperatorError))
    assert printed == [(depth, one.__name__, ValueError in one.__bases__) for depth, one in tree]
    assert sorted(every) == sorted(name for _, name, _ in printed)


@pytest.mark.parametrize("name", sorted(name for name, reason in _reasons().items() if reason.isalpha()))
def test_each_printed_reason_is_one_of_a_condition(name: str) -> None:
    assert _reasons()[name] in set(Reason)


def test_the_reasons_are_those_of_the_errors_themselves() -> None:
    reasons = _reasons()
    for name, kind in _all().items():
        if issubclass(kind, HudiError):
            assert reasons[name] == kind.reason, name
        elif issubclass(kind, PARTITION_ERRORS):
            assert reasons[name].partition(",")[0] == job_error(_error(kind)).reason, name
        elif issubclass(kind, (MetastoreUnavailable, NotAllowedError, UnknownWarehouseError)):
            assert reasons[name] == _trouble(_error(kind)).reason, name
        elif issubclass(kind, JobError) and "__init__" in vars(kind) and kind is not JobError:
            assert reasons[name] == vars(_error(kind))["reason"], name
