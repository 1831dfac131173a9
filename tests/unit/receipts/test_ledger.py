"""The ledger on a local disk: one file each, whose name decides between two writers."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from compaction_operator.receipts import DamagedReceiptError, Kind, Ledger, Receipt, ledger, stored, verify
from compaction_operator.storage import LocalStorage, NotFoundError, StorageError
from tests.support.object_store import ObjectStore
from tests.unit.receipts.test_chain import draft


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
        add(Ledger(storage, str(place)), str(number))
    assert messages(storage, place) == list("01234567")
    assert sorted(one.name for one in place.iterdir()) == ["00000", "00001", "00002"]


def test_two_writers_share_one_chain(storage: LocalStorage, tmp_path: Path) -> None:
    """The second finds the number taken, and is asked again what to write after the first one's receipt."""
    one, other = (Ledger(storage, str(tmp_path)) for _ in range(2))
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
    book = Ledger(storage, str(tmp_path))
    with pytest.raises(StorageError, match="no answer"):
        add(book, "once")
    storage.deaf = False
    book.append(lambda known: None if known else draft(message="once"), after=0)
    assert messages(storage, tmp_path) == ["once"]


def test_a_damaged_receipt_stops_what_must_know_it(tmp_path: Path) -> None:
    """And no other: what follows is chained to its bytes."""
    storage = LocalStorage()
    add(Ledger(storage, str(tmp_path)), "first")
    (path,) = tmp_path.glob("*/*.json")
    path.write_bytes(b"{}")
    book = Ledger(storage, str(tmp_path))
    with pytest.raises(DamagedReceiptError, match=f"{path}: time"):
        add(book, "second")
    book.append(lambda _: draft(message="second"), after=1)
    assert verify(stored(storage, str(tmp_path))).findings == (
        "receipt 1 was altered and cannot be read: time: Field required",
    )


def test_an_end_is_looked_for_since_a_time(tmp_path: Path) -> None:
    """Also by another process. An older receipt cannot be that of an attempt which began later."""
    for hour, uid in (("10", "one"), ("11", "two"), ("12", "one")):
        end = draft(kind=Kind.COMPACTION, time=f"2026-01-01T{hour}:00:00Z", compaction_uid=uid)
        Ledger(LocalStorage(), str(tmp_path)).append_end(end, since=f"2026-01-01T{hour}:00:00Z")
        Ledger(LocalStorage(), str(tmp_path)).append_end(end, since="2026-01-01T09:00:00Z")
    lines = stored(LocalStorage(), str(tmp_path))
    assert [Receipt.parse(line).time[11:13] for _, line in lines] == ["10", "11", "12"]


def test_a_folder_that_is_missing_is_not_an_empty_history(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        list(stored(LocalStorage(), str(tmp_path / "typo")))
