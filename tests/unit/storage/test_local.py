"""Local disk: symbolic links, the rename that Linux alone has, and errors that name what is wrong."""

import ctypes
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from compaction_operator.acid.listing import Directory
from compaction_operator.storage import AlreadyExistsError, LocalStorage, NotFoundError, StorageError, rename

OUTSIDE_FILE = "precious"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that nothing may reach through a link."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / OUTSIDE_FILE).write_text("kept")
    return directory


@pytest.fixture
def table(tmp_path: Path) -> Path:
    directory = tmp_path / "table"
    directory.mkdir()
    return directory


def _delta(table: Path, name: str = "delta_0000001_0000001_0000") -> Path:
    directory = table / name
    directory.mkdir()
    (directory / "bucket_00000").write_bytes(b"rows")
    return directory


def test_delete_tree_refuses_a_link(table: Path, outside: Path) -> None:
    (table / "delta_0000001_0000001").symlink_to(outside)
    with pytest.raises(StorageError, match="symbolic link"):
        LocalStorage().delete_tree(f"{table}/delta_0000001_0000001")
    assert (outside / OUTSIDE_FILE).exists()
    assert (table / "delta_0000001_0000001").is_symlink()


def test_delete_tree_removes_links_inside_without_following(table: Path, outside: Path) -> None:
    delta = _delta(table)
    (delta / "link").symlink_to(outside)
    (delta / "file_link").symlink_to(outside / OUTSIDE_FILE)
    LocalStorage().delete_tree(str(delta))
    assert not delta.exists()
    assert (outside / OUTSIDE_FILE).read_text() == "kept"


def test_delete_tree_goes_through_no_link_above(table: Path, outside: Path) -> None:
    """The partition's own directory, or one above it, may have been replaced by a link out of the table."""
    (outside / "delta_0000001_0000001").mkdir()
    (table / "prt=p1").symlink_to(outside)
    for path in (f"{table}/prt=p1/{OUTSIDE_FILE}", f"{table}/prt=p1/delta_0000001_0000001"):
        with pytest.raises(StorageError, match=r"prt=p1 is a symbolic link"):
            LocalStorage().delete_tree(path)
    assert (outside / OUTSIDE_FILE).exists()
    assert (outside / "delta_0000001_0000001").exists()


def test_a_link_swapped_in_during_deletion_leads_nowhere(
    table: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking at a directory and opening it, another process replaces it by a link."""
    delta = _delta(table)
    inner = delta / "inner"
    inner.mkdir()
    plain_open = os.open

    def swap_then_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "inner" and not inner.is_symlink():
            inner.rmdir()
            inner.symlink_to(outside)
        return plain_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_then_open)
    with pytest.raises(StorageError):
        LocalStorage().delete_tree(str(delta))
    assert (outside / OUTSIDE_FILE).read_text() == "kept"


def test_the_directory_above_swapped_for_a_link_during_deletion_leads_nowhere(
    table: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was opened stays opened: the names below are not looked up by path again."""
    delta = _delta(table)
    (outside / "bucket_00000").write_text("kept")
    plain_unlink = os.unlink

    def swap_then_unlink(path: str, *, dir_fd: int | None = None) -> None:
        if not delta.is_symlink():
            delta.rename(table / "moved")
            delta.symlink_to(outside)
        plain_unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", swap_then_unlink)
    with pytest.raises(StorageError):
        LocalStorage().delete_tree(str(delta))
    assert (outside / "bucket_00000").read_text() == "kept"


def test_entries_that_vanish_during_deletion_are_fine(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H14: two cleanups delete the same directory."""
    delta = _delta(table)
    (delta / "bucket_00001").write_bytes(b"rows")
    plain_unlink = os.unlink

    def another_is_faster(path: str, *, dir_fd: int | None = None) -> None:
        plain_unlink(path, dir_fd=dir_fd)
        if path == "bucket_00000":
            plain_unlink(str(delta / "bucket_00001"))
            delta.rmdir()

    monkeypatch.setattr(os, "unlink", another_is_faster)
    assert LocalStorage().delete_tree(str(delta)) == 4
    assert not delta.exists()


def test_list_partition_refuses_a_link_among_the_directories(table: Path, outside: Path) -> None:
    """Hive would read through it, so leaving it out would lose rows, and following it could delete elsewhere."""
    (table / "delta_0000001_0000001").symlink_to(outside)
    with pytest.raises(StorageError, match=r"delta_0000001_0000001 is neither file nor directory"):
        LocalStorage().list_partition(str(table))


def test_list_partition_refuses_a_link_inside_a_directory(table: Path, outside: Path) -> None:
    (_delta(table) / "bucket_00001").symlink_to(outside / OUTSIDE_FILE)
    with pytest.raises(StorageError, match="bucket_00001"):
        LocalStorage().list_partition(str(table))


def _mark_then(table: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]) -> None:
    """Put `_metadata_acid` into a base, and change it right before it is opened."""
    mark = table / "base_0000001" / "_metadata_acid"
    mark.parent.mkdir()
    mark.write_bytes(b"{}")
    opened = os.open

    def late(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == mark.name:
            change(mark)
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", late)


def test_list_partition_does_not_know_a_mark_that_vanishes(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it had been listed a moment later: another process is deleting the directory."""
    _mark_then(table, monkeypatch, Path.unlink)
    assert LocalStorage().list_partition(str(table)).directories == (Directory("base_0000001", ()),)


def test_list_partition_follows_no_link_that_takes_a_marks_place(
    table: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap(mark: Path) -> None:
        mark.unlink()
        mark.symlink_to(outside / OUTSIDE_FILE)

    _mark_then(table, monkeypatch, swap)
    with pytest.raises(StorageError, match="base_0000001/_metadata_acid"):
        LocalStorage().list_partition(str(table))


def test_list_calls_a_link_other(table: Path, outside: Path) -> None:
    (table / "link").symlink_to(outside)
    assert [entry.kind.value for entry in LocalStorage().list(str(table))] == ["other"]


@pytest.mark.parametrize("operation", ["list", "list_partition", "make_directory", "exists"])
def test_nothing_goes_through_a_link(table: Path, outside: Path, operation: str) -> None:
    (table / "prt=p1").symlink_to(outside)
    with pytest.raises(StorageError, match="symbolic link"):
        getattr(LocalStorage(), operation)(f"{table}/prt=p1/below")


def test_nothing_is_published_through_a_link(table: Path, outside: Path) -> None:
    delta = _delta(table)
    (table / "prt=p1").symlink_to(outside)
    with pytest.raises(StorageError, match="symbolic link"):
        LocalStorage().publish(str(delta), f"{table}/prt=p1/base_0000001")
    with pytest.raises(StorageError, match="symbolic link"):
        LocalStorage().write(f"{table}/prt=p1/file", b"")
    assert [child.name for child in outside.iterdir()] == [OUTSIDE_FILE]


def test_of_many_publishers_of_one_name_one_wins(table: Path) -> None:
    """H4: two drivers publish the same base at the same moment."""
    for number in range(8):
        (table / f"staging_{number}").mkdir()
    start, won = threading.Barrier(8), []

    def publish(number: int) -> None:
        start.wait()
        try:
            LocalStorage().publish(f"{table}/staging_{number}", f"{table}/base_0000001")
            won.append(number)
        except AlreadyExistsError:
            return

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(list(table.iterdir())) == 8


def test_a_rename_paused_at_the_last_moment_fails_once_its_folder_was_renamed(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel must look the source up by its whole path: an open directory would follow the renamed folder."""
    staging = table / "_compaction_a-1-b"
    staging.mkdir()
    _delta(staging, "base_0000003")
    plain = rename.rename_no_replace

    def fence_then_rename(source: str, target: str) -> None:
        staging.rename(table / "_compaction_a-1-b.fenced")
        plain(source, target)

    monkeypatch.setattr("compaction_operator.storage.local.rename_no_replace", fence_then_rename)
    with pytest.raises(NotFoundError, match="no longer exists"):
        LocalStorage().publish(str(staging / "base_0000003"), str(table / "base_0000003"))
    assert not (table / "base_0000003").exists()


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_a_filesystem_without_the_rename_is_named(table: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """There is nothing to fall back to: any other rename may replace or nest."""

    class OldLibc:
        def renameat2(self, *_: object) -> int:
            ctypes.set_errno(code)
            return -1

    monkeypatch.setattr(rename, "_libc", OldLibc())
    delta = _delta(table)
    with pytest.raises(StorageError, match=r"filesystem \(\w+\) does not support renameat2"):
        LocalStorage().publish(str(delta), f"{table}/base_0000001")
    assert delta.exists()


def test_another_error_of_the_system_names_the_place(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(StorageError, match=r"delta_0000001_0000001_0000: Permission denied") as raised:
        LocalStorage().delete_tree(str(_delta(table)))
    assert raised.value.denied


def test_publishing_makes_all_of_a_tree_durable_before_its_name(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The inputs may be deleted seconds later: a power cut must not leave an output that is empty."""
    (table / "staging").mkdir()
    _delta(table / "staging", "base_0000003")
    events: list[str] = []
    plain_sync, plain_rename = os.fsync, rename.rename_no_replace

    def sync(descriptor: int) -> None:
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        plain_sync(descriptor)

    def renamed(source: str, target: str) -> None:
        events.append("rename")
        plain_rename(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr("compaction_operator.storage.local.rename_no_replace", renamed)
    LocalStorage().publish(f"{table}/staging/base_0000003", f"{table}/base_0000003")
    assert events == ["bucket_00000", "base_0000003", "rename", "table"]


@pytest.mark.parametrize("folders", [(), ("/lake", "/warehouse/other")])
def test_what_lies_on_another_volume_is_not_missing(tmp_path: Path, folders: tuple[str, ...]) -> None:
    """Who takes it for missing believes that nothing is left there."""
    storage = LocalStorage(str(tmp_path), folders=folders)
    calls: list[Callable[[], object]] = [
        lambda: storage.list("/warehouse/t"),
        lambda: storage.exists("/warehouse/t"),
        lambda: storage.delete_tree("/warehouse/t"),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="on no volume of this warehouse") as caught:
            call()
        assert not isinstance(caught.value, NotFoundError)


def test_a_volume_has_what_lies_below_its_folder(tmp_path: Path) -> None:
    (tmp_path / "warehouse" / "t").mkdir(parents=True)
    storage = LocalStorage(str(tmp_path), folders=("/warehouse",))
    assert storage.list("file:/warehouse/t") == []
    with pytest.raises(NotFoundError):
        storage.list("file:///warehouse/u")
