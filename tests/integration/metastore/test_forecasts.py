"""The controller's forecasts for policies on real metastores: a child process of its own says what `plan` says."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.config import OperatorConfig, Volume, Warehouse
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion
from compaction_operator.controller import forecasting
from compaction_operator.controller.forecasting import Forecaster
from compaction_operator.driver.live import Question, plan_table
from compaction_operator.metastore import MetastoreClient
from tests.integration.metastore.fixture_table import FixtureTable

SLACK_BYTES = 64
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR


def lake(server: MetastoreServer) -> Warehouse:
    volume = Volume(claim_name="warehouse", mount_path=str(server.warehouse))
    return Warehouse(name="main", metastore=server.settings(), namespaces=("etl",), volume=volume)


def about(table: FixtureTable, kind: CompactionType, partition: str = "") -> ForecastQuestion:
    ref = TableRef(database=table.database, name=table.name)
    return ForecastQuestion(table=ref, type=kind, partition=partition)


def ask(warehouse: Warehouse, *questions: ForecastQuestion) -> Sequence[ForecastAnswer]:
    forecaster = Forecaster(OperatorConfig(warehouses=(warehouse,), profiles=()))
    return asyncio.run(forecaster.ask("main", questions))


def planned(server: MetastoreServer, question: ForecastQuestion) -> dict[str, Any]:
    """What `plan` says. NB: isa-l may deflate the same bytes to other sizes."""
    specs = tuple(filter(None, [question.partition]))
    with MetastoreClient(server.settings()) as client:
        _, found = plan_table(client, Question(lake(server), question.table, question.type, specs))
        (one,) = found
    assert one.planned is not None, one.problem
    said = one.planned.forecast
    assert said is not None, one.planned.problem
    rewritten = pytest.approx(said.bytes_rewritten, abs=SLACK_BYTES)
    return {**said.to_json(), "cpuMilliseconds": 0, "bytesRewritten": rewritten}


def test_each_question_is_answered_as_plan_answers_it(
    server: MetastoreServer, three_inserts: FixtureTable, try_it: FixtureTable
) -> None:
    asked = [about(three_inserts, kind) for kind in (MINOR, MAJOR)]
    asked += [about(try_it, MAJOR, "prt=p1"), about(try_it, MINOR, "prt=p3")]
    before = [three_inserts.names(), try_it.names()]
    answers = ask(lake(server), *asked)
    assert [one.problem for one in answers] == [None] * 4
    for question, answer in zip(asked, answers, strict=True):
        assert answer.forecast is not None
        assert answer.forecast.cpu_milliseconds > 0
        assert {**answer.forecast.to_json(), "cpuMilliseconds": 0} == planned(server, question)
    assert [three_inserts.names(), try_it.names()] == before


def test_what_cannot_be_forecast_is_one_among_the_rest(
    server: MetastoreServer, three_inserts: FixtureTable, try_it: FixtureTable
) -> None:
    victim = sorted(three_inserts.names())[0]
    (three_inserts.directory / victim / "bucket_00000").write_bytes(b"no ORC file")
    gone = about(three_inserts, MINOR).model_copy(update={"table": TableRef(database="default", name="gone")})
    dropped = about(try_it, MINOR, "prt=dropped")
    found = ask(lake(server), gone, about(three_inserts, MINOR), dropped, about(try_it, MINOR, "prt=p1"))
    assert "gone" in (found[0].problem or "")
    assert "bucket_00000" in (found[1].problem or "")
    assert (found[2].problem or "").endswith("has no partition prt=dropped")
    assert found[3].forecast is not None


def test_a_compaction_that_would_write_nothing_says_why(server: MetastoreServer, three_inserts: FixtureTable) -> None:
    """A policy does not see it from the listing if Hive compacted the table itself."""
    for name in sorted(three_inserts.names())[1:]:
        shutil.rmtree(three_inserts.directory / name)
    (answer,) = ask(lake(server), about(three_inserts, MINOR))
    assert (answer.problem or "").startswith("it would write nothing: a Minor merges two or more deltas")


def test_a_partition_outside_of_the_warehouse_is_not_read(
    server: MetastoreServer, try_it: FixtureTable, tmp_path: Path
) -> None:
    """The policy leaves such a one alone, too, but it may have been moved since."""
    volume = Volume(claim_name="warehouse", mount_path=str(tmp_path / "elsewhere"))
    elsewhere = lake(server).model_copy(update={"volume": volume})
    (answer,) = ask(elsewhere, about(try_it, MINOR, "prt=p1"))
    assert answer.forecast is None
    assert "elsewhere" in (answer.problem or "")


def test_a_process_that_needs_more_memory_than_there_is_ends_alone(
    server: MetastoreServer, three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the pod: its limit would end the controller, too."""
    monkeypatch.setattr(forecasting, "ROOM", 0)
    (answer,) = ask(lake(server), about(three_inserts, MINOR))
    assert any(word in (answer.problem or "") for word in ("memory", "MemoryError", "can't start new thread"))


def test_without_a_metastore_nothing_is_answered(server: MetastoreServer, three_inserts: FixtureTable) -> None:
    """One table that it does not answer for may be the cause; two are not."""
    unreachable = server.settings().model_copy(update={"uris": ("thrift://localhost:9",)})
    away = lake(server).model_copy(update={"metastore": unreachable})
    other = about(three_inserts, MINOR).model_copy(update={"table": TableRef(database="default", name="other")})
    (answer,) = ask(away, about(three_inserts, MINOR), about(three_inserts, MAJOR), other, other)[:1]
    assert "localhost:9" in (answer.problem or "")
    assert len(ask(away, about(three_inserts, MINOR), other, other)) == 1
