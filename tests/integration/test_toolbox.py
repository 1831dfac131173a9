"""The toolbox of demo and cluster tests, with tables on a real HDFS and on a real S3."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import CalledProcessError

import pytest
from sandbox.harness.places import StorageKind
from sandbox.harness.settings import Settings
from sandbox.harness.toolbox import TOOLS, StoreToolbox
from sandbox.hdfs.server import HdfsServer

from tests.integration.conftest import TestBucket
from tests.unit.sandbox.test_harness import Here


@dataclass(frozen=True)
class Case:
    """The toolbox of a pod that is this machine, and a place on the store of its tables."""

    toolbox: StoreToolbox
    place: str


@pytest.fixture(params=[pytest.param("hdfs", marks=pytest.mark.hdfs), pytest.param("s3", marks=pytest.mark.s3)])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    return Case(toolbox_on(request.param), f"{root(request, monkeypatch)}/warehouse/demo.db/try_it")


def root(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "hdfs":
        hdfs: HdfsServer = request.getfixturevalue("hdfs")
        return hdfs.uri
    bucket_of: Callable[[str], TestBucket] = request.getfixturevalue("bucket_of")
    bucket = bucket_of("minio")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", bucket.server.endpoint)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(bucket.server.credentials_file))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return str(bucket.root)


def toolbox_on(storage: StorageKind) -> StoreToolbox:
    names = dict.fromkeys(("namespace", "system_namespace", "metastore_namespace"), "demo")
    images = {"operator_image": "o:1", "metastore_image": "m:1"}
    toolbox = StoreToolbox(Here({}), Settings(sandbox=True, environment={}, storage=storage, **images, **names))
    toolbox.bring_tools()
    return toolbox


def test_files_go_to_the_store_and_come_back_as_they_are(case: Case) -> None:
    toolbox, place = case.toolbox, case.place
    files = {"prt=p1/delta_0000001_0000001_0000/bucket_00000": bytes(range(256)), "_hidden": b"."}
    toolbox.write(place, files)
    toolbox.write(place, {"prt=p2/bucket_00000": b"more"})
    assert toolbox.read(place) == {**files, "prt=p2/bucket_00000": b"more"}
    assert toolbox.names(place) == {"_hidden", "prt=p1", "prt=p2"}
    assert "256 prt=p1/delta_0000001_0000001_0000/bucket_00000" in toolbox.listing(place)
    toolbox.remove(place)
    with pytest.raises(CalledProcessError):
        toolbox.names(place)


def test_a_pod_gets_all_modules_that_its_tool_needs() -> None:
    """It has the operator's packages, but not this repository: a missing module ends each call there."""
    toolbox_on("hdfs")
    code = (
        "import sys; sys.modules['types_boto3_s3'] = None; import sandbox.harness.place_tool as it; print(it.__file__)"
    )
    packages = [path for path in sys.path if path.endswith("site-packages")]
    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": ":".join([TOOLS, *packages])},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(TOOLS)
