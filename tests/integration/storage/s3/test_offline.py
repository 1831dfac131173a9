"""The offline verbs on S3: `plan` needs no rename, `compact` does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sandbox.s3.server import S3Server

from compaction_operator.api.stores import S3, STORES_VARIABLE, StoreSettings
from compaction_operator.storage import join
from compaction_operator.storage.s3 import S3Storage

TABLE = Path(__file__).parents[3] / "fixtures/hive-3.1.3/table_txn_001/before"
OPTIONS = ["--type", "minor", "--write-ids", "default.table_txn_001:3:9223372036854775807::", "--output", "json"]
PROGRAM = [sys.executable, "-c", "from compaction_operator.cli import main; main()"]


@pytest.fixture
def table(storage: S3Storage, place: str) -> str:
    """The table on S3, as real Hive wrote it."""
    for file in sorted(TABLE.rglob("*")):
        if file.is_file():
            storage.write(join(place, *file.relative_to(TABLE).parts), file.read_bytes())
    return place


def run(verb: str, server: S3Server, table: str) -> subprocess.CompletedProcess[str]:
    stores = StoreSettings(s3=S3(**server.settings().model_dump()))
    environment = os.environ | {STORES_VARIABLE: stores.model_dump_json(by_alias=True)}
    command = [*PROGRAM, verb, "--location", table.replace("s3a:", "s3:"), *OPTIONS]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_directory_is_planned(server: S3Server, table: str) -> None:
    done = run("plan", server, table)
    assert done.returncode == 0, done.stderr
    planned = json.loads(done.stdout)
    assert planned["output_directories"] == ["delta_0000001_0000003"]
    assert len(planned["obsolete"]) == 3


def test_a_directory_is_not_compacted(server: S3Server, storage: S3Storage, table: str) -> None:
    """Not even the staging of another is touched."""
    storage.write(join(table, "_compaction_x", "file"), b"1")
    before = storage.list(table)
    done = run("compact", server, table)
    assert done.returncode != 0
    assert "this store cannot rename a complete directory into place" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert storage.list(table) == before
