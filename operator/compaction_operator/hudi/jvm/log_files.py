"""Sizes and block headers of log files. NB: of the contents only deleted keys are read.

They are read without the JVM, many files at a time, as each call of Hudi's own reader takes a round trip: 13 ms for a
file. A file that is not as Hudi's writer leaves it is given to that reader.
"""

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

from compaction_operator.hudi.log_blocks import UNKNOWN, LogFile
from compaction_operator.hudi.log_format import Header, LogFormatError, read_headers
from compaction_operator.storage import Entry, EntryKind, StorageError, look_up, open_storage

log = logging.getLogger(__name__)

_NAME = re.compile(r"\..+_([0-9]+)\.log\.[0-9]+(_.+)?")
"""FSUtils.LOG_FILE_PATTERN. From table version 8 on, the number before `.log.` is the delta commit's instant."""

READERS = 16
"""Log files whose headers are read at a time."""


Place = tuple[str, str]
"""A file by its partition ('' in an unpartitioned table) and its name."""


class LogFiles:
    """Reader of a table's log files. A file never changes after its instant completes, so each is read once.

    NB: that holds where names have instants. Elsewhere another commit may append to a file.
    """

    def __init__(self, hudi: Any, storage: Any, base: str, *, names_have_instants: bool) -> None:
        self._hudi = hudi
        self._storage = storage
        self._base = base
        self._names_have_instants = names_have_instants
        self._known: dict[Place, LogFile] = {}
        self._keys = hudi.common.table.log.block.HoodieLogBlock.HeaderMetadataType

    def read(self, places: Iterable[Place]) -> Mapping[Place, LogFile]:
        """Return log files of completed instants, with their sizes and what their block headers contain."""
        wanted = list(places)
        missing = [place for place in wanted if place not in self._known]
        with ThreadPoolExecutor(READERS) as pool:
            found = dict(zip(missing, pool.map(self._open, missing), strict=True))
        read = self._known | {place: file or self._hudis(*place) for place, file in found.items()}
        if self._names_have_instants:
            self._known = read
        return read

    def glance(self, places: Iterable[Place], *, plain: Collection[str]) -> Mapping[Place, LogFile]:
        """Return log files, without size and without reading headers those whose instant is in `plain`.

        `plain` are ordinary delta commits. Only whether their records are partial remains unknown.
        """
        instants = {place: self._instant_in(place[1]) for place in places}
        known = {place for place, found in instants.items() if found and found[0] in plain}
        return {place: LogFile(place[1], instants[place], 0) for place in known} | dict(
            self.read(place for place in instants if place not in known)
        )

    def sizes(self, places: Iterable[Place]) -> Mapping[Place, int]:
        """Return the sizes in bytes of base and log files."""
        wanted = set(places)
        listed = {
            (partition, entry.name): entry.size
            for partition in {partition for partition, _ in wanted}
            for entry in self._list(partition)
            # NB: a symbolic link has a size of its own.
            if entry.kind is EntryKind.FILE
        }
        return {place: listed[place] if place in listed else self._hudis_size(*place) for place in wanted}

    def exists(self, partition: str, name: str) -> bool:
        """Whether a base or log file exists."""
        return bool(self._storage.exists(self._path(partition, name)))

    def open(self, partition: str, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a log file without a JVM. Raises StorageError."""
        return look_up(self._uri(partition, name)).open()

    def _list(self, partition: str) -> Sequence[Entry]:
        """Return the files of a partition, listed without a JVM; none if only Hudi can."""
        folder = self._uri(partition)
        try:
            return open_storage(folder).list(folder)
        except StorageError as error:
            log.info("%s is left to Hudi: %s", folder, error)
            return ()

    def _hudis_size(self, partition: str, name: str) -> int:
        return int(self._storage.getPathInfo(self._path(partition, name)).getLength())

    def _open(self, place: Place) -> LogFile | None:
        """Return a log file as it is without a JVM; None if only Hudi can tell."""
        try:
            with self.open(*place) as file:
                headers, size = read_headers(file)
        except (LogFormatError, OSError, StorageError) as error:
            log.info("%s/%s is left to Hudi's own reader: %s", *place, error)
            return None
        return self._log_file(place[1], headers, size)

    def _hudis(self, partition: str, name: str) -> LogFile:
        """Return a log file as Hudi's own reader finds it."""
        return self._log_file(name, self._hudis_headers(partition, name), self._hudis_size(partition, name))

    def _log_file(self, name: str, headers: Sequence[Header], size: int) -> LogFile:
        found = [header for header in headers if not header.is_command]
        return LogFile(
            name=name,
            # A file without records has only the instant in its name: its writer died, or it only rolls back.
            instants=tuple(sorted({header.instant for header in found})) or self._instant_in(name),
            size=size,
            replaces=frozenset().union(*(header.replaces for header in found)),
            partial=any(header.partial for header in found),
            deletes=frozenset().union(*(header.deletes for header in found)),
            rolls_back=frozenset(header.target for header in headers if header.target),
        )

    def _hudis_headers(self, partition: str, name: str) -> list[Header]:
        """Return the block headers of a log file as Hudi's own reader finds them."""
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

    def _header(self, block: Any) -> Header:
        header, keys = block.getLogBlockHeader(), self._keys
        kind = str(block.getBlockType())
        is_command = kind == "COMMAND_BLOCK"
        return Header(
            is_command=is_command,
            deletes=frozenset({UNKNOWN} if kind == "DELETE_BLOCK" else ()),
            instant=str(header.get(keys.INSTANT_TIME) or ""),
            replaces=frozenset(filter(None, str(header.get(keys.COMPACTED_BLOCK_TIMES) or "").split(","))),
            partial=str(header.get(keys.IS_PARTIAL)).lower() == "true",
            target=str(header.get(keys.TARGET_INSTANT_TIME) or "") if is_command else "",
        )

    def _path(self, partition: str, name: str) -> Any:
        """Return the StoragePath of a file in a partition; '' for an unpartitioned table."""
        return self._hudi.storage.StoragePath(self._uri(partition, name))

    def _uri(self, *names: str) -> str:
        return "/".join((self._base, *filter(None, names)))

    def _instant_in(self, name: str) -> tuple[str, ...]:
        """Return the instant in the name of a log file."""
        found = _NAME.fullmatch(name)
        return (found[1],) if found and self._names_have_instants else ()
