"""Sizes and block headers of log files, read with Hudi's own log format. NB: block contents are never read."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from compaction_operator.hudi.log_blocks import LogFile

_NAME = re.compile(r"\..+_([0-9]+)\.log\.[0-9]+(_.+)?")
"""FSUtils.LOG_FILE_PATTERN. From table version 8 on, the number before `.log.` is the delta commit's instant."""

_COMMAND = "COMMAND_BLOCK"


@dataclass(frozen=True)
class _Header:
    """The relevant fields of a block's header (HoodieLogBlock.HeaderMetadataType)."""

    kind: str
    instant: str
    replaces: frozenset[str]
    partial: bool
    target: str


class LogFiles:
    """Reader of a table's log files. A file never changes after its instant completes, so each header is read once."""

    def __init__(self, jvm: Any, storage: Any, base: str, *, names_have_instants: bool) -> None:
        self._jvm = jvm
        self._storage = storage
        self._base = base
        self._names_have_instants = names_have_instants
        self._known: dict[tuple[str, int], LogFile] = {}
        self._keys = jvm.org.apache.hudi.common.table.log.block.HoodieLogBlock.HeaderMetadataType

    def read(self, partition: str, name: str) -> LogFile:
        """Return a log file with its size and what its block headers contain."""
        return self._read(partition, name, self.size(partition, name))

    def glance(self, partition: str, name: str, *, plain: Collection[str]) -> LogFile:
        """Return a log file without its size, and without reading headers if its instant is in `plain`.

        `plain` are ordinary delta commits. Only whether their records are partial remains unknown.
        """
        found = _NAME.fullmatch(name)
        if self._names_have_instants and found is not None and found[1] in plain:
            return LogFile(name, (found[1],), 0)
        return self._read(partition, name, 0)

    def size(self, partition: str, name: str) -> int:
        """Return the size in bytes of a base or log file."""
        return int(self._storage.getPathInfo(self._java_path(self.path(partition, name))).getLength())

    def blocks(self, partition: str, name: str) -> int:
        """Return the number of a log file's blocks that contain records."""
        return sum(1 for header in self._headers(self.path(partition, name)) if header.kind != _COMMAND)

    def path(self, partition: str, name: str) -> str:
        """Return the full path of a file in a partition; '' for an unpartitioned table."""
        return "/".join(part for part in (self._base, partition, name) if part)

    def _read(self, partition: str, name: str, size: int) -> LogFile:
        path = self.path(partition, name)
        if (path, size) not in self._known:
            headers = self._headers(path)
            found = [header for header in headers if header.kind != _COMMAND]
            self._known[path, size] = LogFile(
                name=name,
                instants=tuple(sorted({header.instant for header in found})) or self._instant_in(name),
                size=size,
                replaces=frozenset().union(*(header.replaces for header in found)),
                partial=any(header.partial for header in found),
                rolls_back=frozenset(header.target for header in headers if header.target),
            )
        return self._known[path, size]

    def _headers(self, path: str) -> list[_Header]:
        logs = self._jvm.org.apache.hudi.common.table.log
        file = self._jvm.org.apache.hudi.common.model.HoodieLogFile(self._java_path(path))
        reader = logs.HoodieLogFormat.newReader(self._storage, file, None)
        found = []
        try:
            while reader.hasNext():
                found.append(self._header(reader.next()))
        finally:
            reader.close()
        return found

    def _header(self, block: Any) -> _Header:
        header, keys = block.getLogBlockHeader(), self._keys
        kind = str(block.getBlockType())
        return _Header(
            kind=kind,
            instant=str(header.get(keys.INSTANT_TIME) or ""),
            replaces=frozenset(filter(None, str(header.get(keys.COMPACTED_BLOCK_TIMES) or "").split(","))),
            partial=str(header.get(keys.IS_PARTIAL)).lower() == "true",
            target=str(header.get(keys.TARGET_INSTANT_TIME) or "") if kind == _COMMAND else "",
        )

    def _java_path(self, path: str) -> Any:
        return self._jvm.org.apache.hudi.storage.StoragePath(path)

    def _instant_in(self, name: str) -> tuple[str, ...]:
        """Return the instant in a file name, for files without records: the writer died, or they only roll back."""
        found = _NAME.fullmatch(name)
        return (found[1],) if found and self._names_have_instants else ()
