"""Sizes and block headers of log files, read with Hudi's own log format. NB: block contents are never read."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from compaction_operator.hudi.log_blocks import LogFile

_NAME = re.compile(r"\..+_([0-9]+)\.log\.[0-9]+(_.+)?")
"""FSUtils.LOG_FILE_PATTERN. From table version 8 on, the number before `.log.` is the delta commit's instant."""

_COMMAND = "COMMAND_BLOCK"
_DELETE = "DELETE_BLOCK"


@dataclass(frozen=True)
class _Header:
    """The relevant fields of a block's header (HoodieLogBlock.HeaderMetadataType)."""

    kind: str
    instant: str
    replaces: frozenset[str]
    partial: bool
    target: str


class LogFiles:
    """Reader of a table's log files. A file never changes after its instant completes, so each header is read once.

    Where names have instants, its size is asked for once, too. NB: another commit may append to other files.
    """

    def __init__(self, hudi: Any, storage: Any, base: str, *, names_have_instants: bool) -> None:
        self._hudi = hudi
        self._storage = storage
        self._base = base
        self._names_have_instants = names_have_instants
        self._known: dict[tuple[str, str, int], LogFile] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._keys = hudi.common.table.log.block.HoodieLogBlock.HeaderMetadataType

    def read(self, partition: str, name: str) -> LogFile:
        """Return a log file of a completed instant, with its size and what its block headers contain."""
        size = self._sizes.get((partition, name))
        if size is None:
            size = self.size(partition, name)
        if self._names_have_instants:
            self._sizes[partition, name] = size
        return self._read(partition, name, size)

    def glance(self, partition: str, name: str, *, plain: Collection[str]) -> LogFile:
        """Return a log file without its size, and without reading headers if its instant is in `plain`.

        `plain` are ordinary delta commits. Only whether their records are partial remains unknown.
        """
        instants = self._instant_in(name)
        if instants and instants[0] in plain:
            return LogFile(name, instants, 0)
        return self._read(partition, name, 0)

    def size(self, partition: str, name: str) -> int:
        """Return the size in bytes of a base or log file."""
        return int(self._storage.getPathInfo(self._path(partition, name)).getLength())

    def exists(self, partition: str, name: str) -> bool:
        """Whether a base or log file exists."""
        return bool(self._storage.exists(self._path(partition, name)))

    def _read(self, partition: str, name: str, size: int) -> LogFile:
        if (partition, name, size) not in self._known:
            headers = self._headers(partition, name)
            found = [header for header in headers if header.kind != _COMMAND]
            self._known[partition, name, size] = LogFile(
                name=name,
                # A file without records has only the instant in its name: its writer died, or it only rolls back.
                instants=tuple(sorted({header.instant for header in found})) or self._instant_in(name),
                size=size,
                replaces=frozenset().union(*(header.replaces for header in found)),
                partial=any(header.partial for header in found),
                deletes=any(header.kind == _DELETE for header in found),
                rolls_back=frozenset(header.target for header in headers if header.target),
            )
        return self._known[partition, name, size]

    def _headers(self, partition: str, name: str) -> list[_Header]:
        logs = self._hudi.common.table.log
        file = self._hudi.common.model.HoodieLogFile(self._path(partition, name))
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

    def _path(self, partition: str, name: str) -> Any:
        """Return the StoragePath of a file in a partition; '' for an unpartitioned table."""
        return self._hudi.storage.StoragePath("/".join(part for part in (self._base, partition, name) if part))

    def _instant_in(self, name: str) -> tuple[str, ...]:
        """Return the instant in the name of a log file."""
        found = _NAME.fullmatch(name)
        return (found[1],) if found and self._names_have_instants else ()
