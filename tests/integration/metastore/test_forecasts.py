"""The controller's forecasts for policies on real metastores: a child process of its own says what `plan` says."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.compaction import CompactionType, Forecast, TableRef
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


def about(table: FixtureTable, kind: CompactionType, *specs: str) -> ForecastQuestion:
    return ForecastQuestion(table=TableRef(database=table.database, name=table.name), type=kind, partitions=specs)


def ask(server: MetastoreServer, *questions: ForecastQuestion) -> Sequence[ForecastAnswer]:
    forecaster = Forecaster(OperatorConfig(warehouses=(lake(server),), profiles=()))
    return asyncio.run(forecaster.ask("main", questions))


def planned(server: MetastoreServer, question: ForecastQuestion) -> dict[str, dict[str, Any] | None]:
    """What `plan` says."""
    specs = tuple(spec for spec in question.partitions if spec)
    with MetastoreClient(server.settings()) as client:
        _, found = plan_table(client, Question(lake(server), question.table, question.type, specs))
        return {one.partition: timeless(one.planned.forecast) for one in found if one.planned}


def timeless(forecast: Forecast | None) -> dict[str, Any] | None:
    """Return the numbers without the CPU time. NB: isa-l may deflate the same bytes to other sizes."""
    if forecast is None:
        return None
    rewritten = pytest.approx(forecast.bytes_rewritten, abs=SLACK_BYTES)
    return {**forecast.to_json(), "cpuMilliseconds": 0, "bytesRewritten": rewritten}


def test_each_question_is_answered_as_plan_answers_it(
    server: MetastoreServer, three_inserts: FixtureTable, try_it: FixtureTable
) -> None:
    asked = (
        about(three_inserts, MINOR, ""),
        about(three_inserts, MAJOR, ""),
        about(try_it, MAJOR, "prt=p1", "prt=p3"),
    )
    before = [three_inserts.names(), try_it.names()]
    answers = ask(server, *asked)
    assert [one.problem for one in answers] == [None] * 3
    for question, answer in zip(asked, answers, strict=True):
        assert all(one.forecast and one.forecast.cpu_milliseconds > 0 for one in answer.partitions)
        numbers = {one.partition: one.forecast.to_json() for one in answer.partitions if one.forecast}
        assert {name: {**one, "cpuMilliseconds": 0} for name, one in numbers.items()} == planned(server, question)
    assert [three_inserts.names(), try_it.names()] == before


def test_a_table_that_is_gone_or_unreadable_is_one_among_the_rest(
    server: MetastoreServer, three_inserts: FixtureTable, try_it: FixtureTable
) -> None:
    victim = sorted(three_inserts.names())[0]
    (three_inserts.directory / victim / "bucket_00000").write_bytes(b"no ORC file")
    gone = about(three_inserts, MINOR, "").model_copy(update={"table": TableRef(database="default", name="gone")})
    found = ask(server, gone, about(three_inserts, MINOR, ""), about(try_it, MINOR, "prt=p1"))
    assert "gone" in (found[0].problem or "")
    assert "bucket_00000" in (found[1].partitions[0].problem or "")
    assert found[2].partitions[0].problem is None


def test_a_process_that_needs_more_memory_than_there_is_ends_alone(
    server: MetastoreServer, three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the pod: its limit would end the controller, too."""
    monkeypatch.setattr(forecasting, "ROOM", 0)
    (answer,) = ask(server, about(three_inserts, MINOR, ""))
    assert answer.problem is not None
    assert ("memory" in answer.problem) or ("exit code" in answer.problem)


def test_without_a_metastore_nothing_is_answered(server: MetastoreServer, three_inserts: FixtureTable) -> None:
    away = lake(server).model_copy(
        update={"metastore": server.settings().model_copy(update={"uris": ("thrift://localhost:9",)})}
    )
    forecaster = Forecaster(OperatorConfig(warehouses=(away,), profiles=()))
    assert asyncio.run(forecaster.ask("main", [about(three_inserts, MINOR, "")])) == []
