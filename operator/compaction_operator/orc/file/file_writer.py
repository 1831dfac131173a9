"""Writes an ORC file stripe by stripe: builds new stripes from columns and copies others byte for byte."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, BinaryIO, Self

import pyarrow as pa

from compaction_operator.orc.file.checksum import checksum_of, stripe_checksum
from compaction_operator.orc.file.statistics import column_statistics, merge
from compaction_operator.orc.file.stripe_builder import StoredColumn, StripeBuilder, StripeLayout
from compaction_operator.orc.file.stripe_copy import JAVA, stripe_statistics
from compaction_operator.orc.file.tail import MAGIC, Tail, one_line
from compaction_operator.orc.spec import OrcError, physical_type
from compaction_operator.orc.spec.messages import Footer, Metadata, PostScript, StripeFooter
from compaction_operator.storage import (
    copy_range,
    create_file,
    discard,
    is_checked_by_store,
    make_durable,
    write_behind,
)

_VERSION = (0, 12)
_WRITER_VERSION = 7
"""As Hive 3.1 writes (ORC_517): string statistics hold complete values, and timestamp statistics are also in UTC."""


class OrcDraft:
    """An ORC file that is counted but not written: what `OrcWriter` would write, to the byte.

    Add the stripes, then call `finish`. `size` has the bytes so far, `stripe_rows` the rows of each stripe.
    """

    def __init__(self, layout: StripeLayout) -> None:
        self._layout = layout
        self._footer = Footer(header_length=len(MAGIC), writer=JAVA, row_index_stride=layout.row_index_stride)
        self._footer.types.extend(layout.types)
        self._metadata = Metadata()
        self._writer_version = _WRITER_VERSION
        self.size = len(MAGIC)
        self.bytes_copied = 0

    @property
    def stripe_rows(self) -> list[int]:
        """The number of rows of each stripe, in order."""
        return [int(stripe.number_of_rows) for stripe in self._footer.stripes]

    @contextmanager
    def stripe(self, rows: int) -> Iterator[StripeBuilder]:
        """Build a stripe of `rows` rows and add it when the block ends; a stripe without rows is omitted."""
        builder = StripeBuilder(rows, self._layout)
        yield builder
        builder.complete()
        if rows:
            self._add_built(rows, builder.columns)

    def _add_built(self, rows: int, columns: Sequence[StoredColumn]) -> None:
        index = [stream for column in columns for stream in column.index]
        data = [stream for column in columns for stream in column.data]
        footer = StripeFooter(writer_timezone="UTC", columns=[column.encoding for column in columns])
        for stream in (*index, *data):
            footer.streams.add(kind=stream.kind, column=stream.column, length=len(stream.data))
        stripe = self._footer.stripes.add(
            offset=self.size,
            index_length=sum(len(stream.data) for stream in index),
            data_length=sum(len(stream.data) for stream in data),
            number_of_rows=rows,
        )
        pieces = [*(stream.data for stream in (*index, *data)), self._stored(footer)]
        stripe.footer_length = len(pieces[-1])
        self._metadata.stripe_stats.add(column_stats=[column.statistics for column in columns])
        self._append(pieces)

    def add_copied(self, tail: Tail, index: int) -> None:
        """Add a stripe of another file as it is, with its statistics; `can_copy` must hold for it."""
        stripe = self._footer.stripes.add()
        stripe.CopyFrom(tail.footer.stripes[index])
        stripe.offset = self.size
        self._metadata.stripe_stats.append(stripe_statistics(tail, index))
        self._writer_version = min(self._writer_version, tail.postscript.writer_version)
        length = tail.extent(index)[1]
        self.size += length
        self.bytes_copied += length

    def _stored(self, message: Any) -> bytes:
        return self._layout.compress(message.SerializeToString()).data

    def _append(self, pieces: Sequence[bytes]) -> None:
        """Add a stripe or the tail, in pieces."""
        self.size += sum(map(len, pieces))

    def finish(self, user_metadata: Mapping[str, bytes]) -> int:
        """Add the tail and return the file's size in bytes."""
        self._footer.content_length = self.size - len(MAGIC)
        self._footer.number_of_rows = sum(self.stripe_rows)
        self._footer.statistics.extend(self._file_statistics())
        if self._layout.calendar:
            self._footer.calendar = self._layout.calendar
        for name, value in sorted(user_metadata.items()):
            self._footer.metadata.add(name=name, value=value)
        metadata, footer = self._stored(self._metadata), self._stored(self._footer)
        postscript = PostScript(
            metadata_length=len(metadata),
            footer_length=len(footer),
            compression=self._layout.compression,
            compression_block_size=self._layout.block_size,
            version=_VERSION,
            writer_version=self._writer_version,
            magic=MAGIC.decode(),
        ).SerializeToString()
        self._append((metadata, footer, postscript + bytes([len(postscript)])))
        return self.size

    def _file_statistics(self) -> list[Any]:
        """Return the statistics of each column over all stripes; without stripes, those of zero values."""
        types, stripes = self._layout.types, self._metadata.stripe_stats
        if not stripes:
            empty = (pa.array([], physical_type(types, column)) for column in range(len(types)))
            return [column_statistics(types, column, array) for column, array in enumerate(empty)]
        return [merge([stripe.column_stats[column] for stripe in stripes]) for column in range(len(types))]


class OrcWriter(OrcDraft):
    """A new ORC file, as a context manager: write the stripes, then call `finish`.

    The file must not exist. It is removed if the block raises an error or ends without `finish`. Raises OrcError with
    the path for content that cannot be written. `checksums` has the CRC-32 of each stripe, and in the end of the tail,
    or None where the store checks itself what it gets. Without `durable` the file may not survive a power cut.
    """

    def __init__(self, path: str, layout: StripeLayout, *, durable: bool = True) -> None:
        super().__init__(layout)
        self._path = path
        self._durable = durable
        self._file: BinaryIO
        self._finished = False
        self._begun = 0
        self.checksums: list[int | None] = []

    def __enter__(self) -> Self:
        try:
            self._file = create_file(self._path)
        except OSError as error:
            raise OrcError(self._path, f"cannot be created: {error.strerror}") from error
        self._file.write(MAGIC)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._finished and not error:
                self._file.close()
            else:
                discard(self._file, self._path)
        except OSError as failure:
            error = error or failure
        if isinstance(error, OSError | ValueError | pa.ArrowException):
            raise OrcError(self._path, f"cannot be written: {one_line(error)}") from error

    def copy_stripe(self, file: BinaryIO, tail: Tail, index: int) -> None:
        """Append a stripe of another file byte for byte, with its statistics; `can_copy` must hold for it.

        The store copies the bytes, if it can. Otherwise the checksum is that of what was read. Raises OrcError, naming
        the other file, if that file is truncated.
        """
        start, length = tail.extent(index)
        checksum = None
        if not copy_range(file, self._file, offset=start, length=length):
            checksum = stripe_checksum(file, tail, index, copy_to=self._file)
        self.add_copied(tail, index)
        self.checksums.append(None if is_checked_by_store(self._file) else checksum)
        self._write_behind()

    def _add_built(self, rows: int, columns: Sequence[StoredColumn]) -> None:
        super()._add_built(rows, columns)
        self._write_behind()

    def _write_behind(self) -> None:
        if self._durable:
            self._begun = write_behind(self._file, begun=self._begun)

    def _append(self, pieces: Sequence[bytes]) -> None:
        for piece in pieces:
            self._file.write(piece)
        super()._append(pieces)
        self.checksums.append(None if is_checked_by_store(self._file) else checksum_of(pieces))

    def finish(self, user_metadata: Mapping[str, bytes]) -> int:
        """Write the tail, flush a durable file to disk and return its size in bytes."""
        size = super().finish(user_metadata)
        if self._durable:
            make_durable(self._file)
        else:
            self._file.flush()  # NB: a full disk is noticed here, while the file can still be removed
        self._finished = True
        return size
