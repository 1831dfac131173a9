"""The ledger on a local disk: one file each, whose name decides between two writers."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from compaction_operator.receipts import DamagedReceiptError, Kind, Ledger, Receipt, ledger, stored, verify
from compaction_operator.storage import LocalStorage, NotFoundError, StorageError
from tests.support.object_store import ObjectStore
from tests.unit.receipts.test_chain import draft


def ledger_in(storage: LocalStorage, place: Path, *, now: Callable[[], str] = lambda: "2026-01-01T12:00:00Z") -> Ledger:
    return Ledger(storage, str(place), now=now)


def add(book: Ledger, message: str) -> None:
    book.append(lambda _: draft(message=message), after=0)


def messages(storage: LocalStorage, place: Path) -> list[str]:
    lines = list(stored(storage, str(place)))
    assert not verify(lines).findings
    return [Receipt.parse(line).message for _, line in lines]


@pytest.fixture(params=[LocalStorage, ObjectStore])
def storage(request: pytest.FixtureRequest) -> LocalStorage:
    made: LocalStorage = request.param()
    return made


def test_a_new_process_goes_on_where_the_chain_ends(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beyond the end of a folder."""
    monkeypatch.setattr(ledger, "FOLDER_SIZE", 3)
    place = tmp_path / "receipts"
    for number in range(8):
        add(ledger_in(storage, place), str(number))
    assert messages(storage, place) == list("01234567")
    assert sorted(one.name for one in place.iterdir()) == ["00000", "00001", "00002"]


def test_two_writers_share_one_chain(storage: LocalStorage, tmp_path: Path) -> None:
    """The second finds the number taken, and is asked again what to write after the first one's receipt."""
    one, other = (ledger_in(storage, tmp_path) for _ in range(2))
    seen: list[list[str]] = []

    def make(known: Sequence[Receipt]) -> Receipt:
        seen.append([receipt.message for receipt in known])
        return draft(message="of the other")

    assert one.head() == other.head()
    add(one, "of the one")
    other.append(make, after=0)
    assert seen == [[], ["of the one"]]
    assert messages(storage, tmp_path) == ["of the one", "of the other"]


class Deaf(LocalStorage):
    """Writes, and says that it did not."""

    deaf = True

    def write(self, path: str, data: bytes) -> None:
        super().write(path, data)
        if self.deaf:
            raise StorageError("no answer", passing=True)


def test_a_receipt_whose_answer_was_lost_is_not_written_again(tmp_path: Path) -> None:
    storage = Deaf()
    book = ledger_in(storage, tmp_path)
    with pytest.raises(StorageError, match="no answer"):
        add(book, "once")
    storage.deaf = False
    book.append(lambda known: None if known else draft(message="once"), after=0)
    assert messages(storage, tmp_path) == ["once"]


def test_a_damaged_receipt_stops_what_must_know_it(tmp_path: Path) -> None:
    """And no other: what follows is chained to its bytes."""
    storage = LocalStorage()
    add(ledger_in(storage, tmp_path), "first")
    (path,) = tmp_path.glob("*/*.json")
    path.write_bytes(b"{}")
    book = ledger_in(storage, tmp_path)
    with pytest.raises(DamagedReceiptError, match=f"{path}: kind"):
        add(book, "second")
    book.append(lambda _: draft(message="second"), after=1)
    assert verify(stored(storage, str(tmp_path))).findings == (
        "receipt 1 was altered and cannot be read: kind: Field required",
    )


def hour(number: int) -> str:
    return f"2026-01-01T{number:02}:00:00Z"


def end_of(uid: str, attempt: int = 1) -> Receipt:
    return draft(kind=Kind.COMPACTION, compaction_uid=uid, attempt=attempt, message=f"{uid}/{attempt}")


def test_an_end_is_looked_for_since_a_time(tmp_path: Path) -> None:
    """Also by another process. What is older than the attempt is not read."""
    opened: list[str] = []

    class Watched(LocalStorage):
        def read(self, path: str) -> bytes:
            opened.append(path[-6:])
            return super().read(path)

    for number, (uid, attempt) in enumerate((("one", 1), ("two", 1), ("one", 2)), 10):
        for _ in range(2):
            book = ledger_in(LocalStorage(), tmp_path, now=lambda number=number: hour(number))  # type: ignore[misc]
            book.append_end(end_of(uid, attempt), since=hour(9))
    assert messages(LocalStorage(), tmp_path) == ["one/1", "two/1", "one/2"]
    ledger_in(Watched(), tmp_path).append_end(end_of("three"), since=hour(12))
    assert sorted(set(opened)) == ["2.json", "3.json"]


@pytest.mark.parametrize(("kept", "indexed"), [(1, 2), (500, 2), (1, 500)])
def test_what_is_no_longer_in_memory_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, indexed: int
) -> None:
    monkeypatch.setattr(ledger, "KEPT", kept)
    monkeypatch.setattr(ledger, "INDEXED", indexed)
    book = ledger_in(LocalStorage(), tmp_path)
    for uid in "abcdaa":
        book.append_end(end_of(uid), since=hour(9))
    assert messages(LocalStorage(), tmp_path) == ["a/1", "b/1", "c/1", "d/1"]


def test_a_writer_that_was_paused_does_not_hide_the_ends_before_its_receipt(tmp_path: Path) -> None:
    """It took its time, and the next number was another's when it woke: its receipt has the time of its next try."""
    clock, other = [hour(9), hour(12)], ledger_in(LocalStorage(), tmp_path, now=lambda: hour(11))

    class Paused(LocalStorage):
        def write(self, path: str, data: bytes) -> None:
            other.append_end(end_of("one"), since=hour(10))
            super().write(path, data)

    ledger_in(Paused(), tmp_path, now=lambda: clock.pop(0)).append_end(end_of("two"), since=hour(8))
    other.append_end(end_of("one"), since=hour(10))
    ledger_in(LocalStorage(), tmp_path).append_end(end_of("one"), since=hour(10))
    assert messages(LocalStorage(), tmp_path) == ["one/1", "two/1"]


def test_a_folder_that_is_missing_is_not_an_empty_history(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        list(stored(LocalStorage(), str(tmp_path / "typo")))
