"""Files made of bytes that we write and of ranges that S3 copies, and what of them passes through this process."""

import base64
import random
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sandbox.s3.proxy import MisbehavingProxy, lost, refused
from sandbox.s3.server import S3Server

from compaction_operator.api.stores import S3, StoreSettings
from compaction_operator.orc import InputFile, MergeResult, OrcError, merge_bucket, stitch_parts
from compaction_operator.orc.file import OrcWriter, read_tail
from compaction_operator.storage import AlreadyExistsError, Stores, copy_range, join, stores
from compaction_operator.storage.files import RemoteFile, created
from compaction_operator.storage.s3 import S3Storage
from compaction_operator.storage.s3.files import S3Writer
from tests.integration.storage.s3.conftest import PARAMETERS, STORES
from tests.unit.orc.build import insert, insert_task, write_acid
from tests.unit.orc.columns import LONG, layout, tree, write

MIB = 1 << 20
SOURCE = random.Random(5).randbytes(24 * MIB)
TYPES = tree(LONG)
LAYOUT = layout(TYPES, row_index_stride=10_000)
ROWS = 1_100_000
"""Random numbers of 8 bytes: a stripe of more than 8 MiB."""

by_one_server = pytest.mark.parametrize(PARAMETERS, [STORES["minio"]], scope="session", ids=[""])


@pytest.fixture
def source(storage: S3Storage, place: str) -> str:
    storage.write(join(place, "source"), SOURCE)
    return join(place, "source")


@pytest.mark.parametrize("seed", range(4))
def test_written_and_copied_pieces_are_in_their_order(storage: S3Storage, place: str, source: str, seed: int) -> None:
    """Small and large ones, neighbours and not, so that each kind of part arises."""
    chance = random.Random(seed)
    expected = bytearray(SOURCE[:3])
    with RemoteFile(storage, source).open() as old, created(storage, join(place, "new")) as new:
        new.write(SOURCE[:3])
        start = 3
        for _ in range(12):
            length = chance.choice([0, 1, 100, MIB, 4 * MIB, 6 * MIB, 11 * MIB])
            if chance.random() < 0.4:
                piece = chance.randbytes(length)
                new.write(piece)
                expected += piece
                continue
            start = start if start + length <= len(SOURCE) and chance.random() < 0.5 else chance.randrange(MIB)
            assert copy_range(old, new, offset=start, length=length)
            expected += SOURCE[start : start + length]
            start += length
        assert new.tell() == len(expected)
    assert storage.read(join(place, "new")) == expected


def test_a_range_that_is_not_there_is_not_copied(storage: S3Storage, place: str, source: str) -> None:
    with RemoteFile(storage, source).open() as old, created(storage, join(place, "new")) as new:
        assert not copy_range(old, new, offset=len(SOURCE) - 5, length=6)
        assert new.tell() == 0


def test_a_range_of_an_object_that_was_replaced_is_an_error(storage: S3Storage, place: str, source: str) -> None:
    with RemoteFile(storage, source).open() as old:
        storage.delete_tree(source)
        storage.write(source, SOURCE[::-1])
        new = created(storage, join(place, "new"))
        assert copy_range(old, new, offset=0, length=6 * MIB)
        with pytest.raises(OSError, match=r"copy .*source into part 1"):
            new.close()
    assert not storage.exists(join(place, "new"))


@pytest.mark.parametrize("size", [3, 30 * MIB])
def test_nothing_is_there_before_the_file_is_closed(storage: S3Storage, place: str, size: int) -> None:
    file = created(storage, join(place, "new"))
    file.write(bytes(size))
    file.flush()
    assert not storage.exists(join(place, "new"))
    file.close()
    assert len(storage.read(join(place, "new"))) == size


@pytest.mark.parametrize("size", [3, 30 * MIB])
def test_a_file_whose_completion_was_not_answered_is_known(
    behind_proxy: S3Storage, proxy: MisbehavingProxy, place: str, size: int
) -> None:
    writer = behind_proxy.writer(join(place, "new"))
    writer.write(bytes(size))
    proxy.misbehave(1, put=lost, complete=lost)
    writer.close()
    assert len(behind_proxy.read(join(place, "new"))) == size
    second = behind_proxy.writer(join(place, "new"))
    second.write(bytes(size))
    with pytest.raises(AlreadyExistsError):
        second.close()


@pytest.mark.parametrize("operation", ["put_part", "copy_part", "complete"])
def test_a_file_that_fails_leaves_neither_object_nor_upload(
    behind_proxy: S3Storage, proxy: MisbehavingProxy, place: str, source: str, operation: str
) -> None:
    proxy.behave(**{operation: refused(403, "AccessDenied")})
    with RemoteFile(behind_proxy, source).open() as old:
        new = created(behind_proxy, join(place, "new"))
        assert copy_range(old, new, offset=0, length=6 * MIB)
        new.write(b"the end")
        with pytest.raises(OSError, match="AccessDenied"):
            new.close()
    assert proxy.calls["abort"] == 1
    assert not behind_proxy.exists(join(place, "new"))


# --- ORC


@pytest.fixture
def own_stores(server: S3Server, proxy: MisbehavingProxy, monkeypatch: pytest.MonkeyPatch) -> Stores:
    """The stores of this process: as a driver or an executor, by the proxy."""
    found = Stores(StoreSettings(s3=S3(**server.settings(endpoint=proxy.endpoint).model_dump())))
    monkeypatch.setattr(stores, "_own_stores", lambda: found)
    return found


def part(storage: S3Storage, uri: str, folder: Path, *, stripes: int) -> MergeResult:
    """A file of large stripes."""
    numbers = np.random.default_rng(stripes)
    arrays = [{1: pa.array(numbers.integers(-(2**62), 2**62, ROWS))} for _ in range(stripes)]
    path = write(folder / "part", LAYOUT, *arrays)
    storage.write(uri, path.read_bytes())
    path.unlink()
    return MergeResult(output=uri, rows_out=stripes * ROWS)


@by_one_server
def test_large_stripes_do_not_pass_through_this_process(
    own_stores: Stores, proxy: MisbehavingProxy, storage: S3Storage, place: str, tmp_path: Path
) -> None:
    """At most 2 % of their bytes, and for each file few calls beside those of its stripes."""
    parts = [part(storage, join(place, f"part{number}"), tmp_path, stripes=number) for number in (1, 2, 3)]
    proxy.behave()
    size = stitch_parts(parts, join(place, "output"))
    moved, calls = proxy.bytes, proxy.calls.copy()
    tails = [read_tail(one.output) for one in parts]
    assert min(stripe.data_length for tail in tails for stripe in tail.footer.stripes) > 8 * MIB
    assert size == len(storage.read(join(place, "output"))) > 48 * MIB
    assert moved < 0.02 * size
    assert calls.total() <= 3 * 12 + 3 * 6, calls
    # Each part once, with its last footer; the footers before; and whether the output's beginning is a part's, too.
    assert calls["get"] <= 3 + 3 + 1, calls
    assert read_tail(join(place, "output")).rows == 6 * ROWS
    expected = b"".join(_stripes(storage, one.output) for one in parts)
    assert _stripes(storage, join(place, "output")) == expected


def _delta(storage: S3Storage, uri: str, folder: Path, *, write_id: int) -> InputFile:
    """A delta's file with one large stripe, as the driver writes it."""
    chance = random.Random(write_id)
    events = [insert(write_id, row, base64.b64encode(chance.randbytes(1200)).decode()) for row in range(10_000)]
    written = write_acid(folder / "delta", events, stripe_size=1 << 30)
    merge_bucket(insert_task(folder / "rewritten", [written]))
    storage.write(uri, (folder / "rewritten").read_bytes())
    for name in ("delta", "rewritten"):
        (folder / name).unlink()
    return InputFile(uri)


@by_one_server
def test_a_minor_compaction_of_large_stripes_is_done_by_the_store(
    own_stores: Stores, proxy: MisbehavingProxy, storage: S3Storage, place: str, tmp_path: Path
) -> None:
    """From the deltas to the published object at most 2 % of the bytes come here."""
    deltas = [_delta(storage, join(place, f"delta{number}"), tmp_path, write_id=number) for number in (1, 2, 3)]
    proxy.behave()
    result = merge_bucket(replace(insert_task(tmp_path, deltas), output=join(place, "staged")))
    uploads = own_stores.open(place).uploads
    assert uploads
    begun = uploads.begin(place, {"delta_1_3_v7/bucket_00000": join(place, "staged")})
    uploads.complete(place, begun)
    moved, calls = proxy.bytes, proxy.calls.copy()
    output = join(place, "delta_1_3_v7", "bucket_00000")
    assert result.bytes_copied > 3 * 8 * MIB
    assert moved < 0.02 * result.bytes_copied
    assert calls.total() <= 12 + 3 * 12, calls
    assert calls["get"] <= 3 + 1, calls
    assert [stripe.number_of_rows for stripe in read_tail(output).footer.stripes] == [10_000] * 3


def _stripes(storage: S3Storage, uri: str) -> bytes:
    stripes = read_tail(uri).footer.stripes
    lengths = [one.index_length + one.data_length + one.footer_length for one in stripes]
    assert [one.offset for one in stripes] == [3, *accumulate(lengths, initial=3)][1:-1] or len(stripes) == 1
    return storage.read(uri)[3 : 3 + sum(lengths)]


def test_an_orc_file_that_is_not_finished_never_appears(
    own_stores: Stores, storage: S3Storage, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what another process put there meanwhile is not deleted."""
    output = join(place, "output")

    def interrupted(_writer: S3Writer) -> None:
        raise AssertionError("completed")

    monkeypatch.setattr(S3Writer, "close", interrupted)
    with pytest.raises(ZeroDivisionError), OrcWriter(output, LAYOUT):
        storage.write(output, b"another's")
        raise ZeroDivisionError
    assert storage.read(output) == b"another's"


def test_an_orc_file_that_is_not_completed_is_an_error(own_stores: Stores, storage: S3Storage, place: str) -> None:
    output = join(place, "output")
    with pytest.raises(OrcError, match=r"output: cannot be written: .*exists"), OrcWriter(output, LAYOUT) as writer:
        storage.write(output, b"another's")
        writer.finish({})
    assert storage.read(output) == b"another's"
