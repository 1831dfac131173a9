"""Log files as Python reads them and as Hudi's own reader does."""

from dataclasses import replace
from pathlib import Path

from sandbox.hudi.look import log_files, meta_client
from sandbox.hudi.session import HudiSession

from compaction_operator.hudi import LogFile
from compaction_operator.hudi.jvm.log_files import LogFiles


def read_twice(
    hudi: HudiSession, location: Path, *, names_have_instants: bool = True
) -> list[tuple[LogFile | None, LogFile]]:
    """Return each log file of an unpartitioned table as Python, which may leave it to Hudi, and as Hudi finds it."""
    storage = meta_client(hudi, location).getStorage()
    files = LogFiles(hudi.jvm.org.apache.hudi, storage, str(location), names_have_instants=names_have_instants)
    names = [str(path.relative_to(location)) for path in log_files(location)]
    return [(files._open(("", name)), files._hudis("", name)) for name in names]


def read_alike(hudi: HudiSession, location: Path, *, names_have_instants: bool = True) -> list[LogFile]:
    """Return the log files; raises AssertionError unless both find the same. Only Python reads the types of deletes."""
    pairs = read_twice(hudi, location, names_have_instants=names_have_instants)
    found = [ours for ours, _ in pairs if ours]
    assert [bool(file.deletes) for file in found] == [bool(theirs.deletes) for _, theirs in pairs]
    assert found == [replace(theirs, deletes=ours.deletes) for ours, theirs in pairs if ours]
    return found
