"""The toolbox of demo and cluster tests, with tables on a real HDFS."""

import sys
from pathlib import Path
from subprocess import CalledProcessError

import pytest
from sandbox.harness.settings import Settings
from sandbox.harness.toolbox import HdfsToolbox
from sandbox.hdfs.server import HdfsServer

from tests.unit.sandbox.test_harness import Here

PLACE = "/warehouse/demo.db/try_it"


@pytest.fixture
def toolbox(monkeypatch: pytest.MonkeyPatch) -> HdfsToolbox:
    """The toolbox of a pod that is this machine."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    names = dict.fromkeys(("namespace", "system_namespace", "metastore_namespace"), "demo")
    images = {"operator_image": "o:1", "metastore_image": "m:1"}
    toolbox = HdfsToolbox(Here({}), Settings(sandbox=True, environment={}, storage="hdfs", **images, **names))
    toolbox.bring_tools()
    return toolbox


@pytest.mark.hdfs
def test_files_go_to_hdfs_and_come_back_as_they_are(toolbox: HdfsToolbox, hdfs: HdfsServer) -> None:
    place = f"{hdfs.uri}{PLACE}"
    files = {"prt=p1/delta_0000001_0000001_0000/bucket_00000": bytes(range(256)), "_hidden": b"."}
    toolbox.write(place, files)
    toolbox.write(place, {"prt=p2/bucket_00000": b"more"})
    assert toolbox.read(place) == {**files, "prt=p2/bucket_00000": b"more"}
    assert toolbox.names(place) == {"_hidden", "prt=p1", "prt=p2"}
    assert "256 prt=p1/delta_0000001_0000001_0000/bucket_00000" in toolbox.listing(place)
    toolbox.remove(place)
    with pytest.raises(CalledProcessError):
        toolbox.names(place)
