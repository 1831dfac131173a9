"""Sizes and block headers of log files, read with Hudi's own log format. NB: contents are skipped, never read."""

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from compaction_operator.hudi.runs import LogFile

_NAME = re.compile(r"\..+_([0-9]+)\.log\.[0-9]+(_.+)?")
"""FSUtils.LOG_FILE_PATTERN. From table version 8 on the number before `.log.` is the delta commit's instant."""

_COMMAND = "COMMAND_BLOCK"


class LogFiles:
    """The log files of a table. A file never changes once its instant is complete, so each header is read once."""

    def __init__(self, jvm: Any, storage: Any, base: str, *, names_have_instants: bool) -> None:
        self._jvm = jvm
        self._storage = storage
        self._base = base
        self._names_have_instants = names_have_instants
        self._known: dict[str, LogFile] = {}

    def read(self, partition: str, name: str, *, plain: Collection[str]) -> LogFile:
        """Return a log file. The headers of a file of one of `plain`, ordinary delta commits, are not read."""
        return replace(self.without_size(partition, name, plain=plain), size=self.size(partition, name))

    def without_size(self, partition: str, name: str, *, plain: Collection[str]) -> LogFile:
        """Return the same, with 0 bytes, for less effort."""
        found = _NAME.fullmatch(name)
        if self._names_have_instants and found is not None and found[1] in plain:
            return LogFile(name, (found[1],), 0)
        path = self.path(partition, name)
        if path not in self._known:
            self._known[path] = self._read(path, name, found[1] if found else "")
        return self._known[path]

    def size(self, partition: str, name: str) -> int:
        """Return the bytes of a file, base or log."""
        return int(self._storage.getPathInfo(self._java_path(self.path(partition, name))).getLength())

    def blocks(self, partition: str, name: str) -> int:
        """Return how many blocks with records a log file has."""
        return sum(1 for kind, _, _ in self._headers(self.path(partition, name)) if kind != _COMMAND)

    def path(self, partition: str, name: str) -> str:
        """Return the whole path of a file of a partition ('' for a table that has none)."""
        return "/".join(part for part in (self._base, partition, name) if part)

    def _read(self, path: str, name: str, named: str) -> LogFile:
        headers = [header for header in self._headers(path) if header[0] != _COMMAND]
        instants = tuple(sorted({instant for _, instant, _ in headers})) or (named,)
        return LogFile(name, instants, 0, frozenset().union(*(replaced for _, _, replaced in headers)))

    def _headers(self, path: str) -> list[tuple[str, str, frozenset[str]]]:
        """Return type, instant and replaced instants of each block (HoodieLogBlock.HeaderMetadataType)."""
        logs = self._jvm.org.apache.hudi.common.table.log
        file = self._jvm.org.apache.hudi.common.model.HoodieLogFile(self._java_path(path))
        reader = logs.HoodieLogFormat.newReader(self._storage, file, None)
        found = []
        try:
            while reader.hasNext():
                block = reader.next()
                header = {str(key): str(value) for key, value in dict(block.getLogBlockHeader()).items()}
                replaced = frozenset(part for part in header.get("COMPACTED_BLOCK_TIMES", "").split(",") if part)
                found.append((str(block.getBlockType()), header.get("INSTANT_TIME", ""), replaced))
        finally:
            reader.close()
        return found

    def _java_path(self, path: str) -> Any:
        return self._jvm.org.apache.hudi.storage.StoragePath(path)
