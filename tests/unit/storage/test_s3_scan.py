"""Many directories are listed by few requests, and each gets exactly what is below it."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.storage.s3.objects import Object, Page
from compaction_operator.storage.s3.scan import objects_below

NAMES = st.sampled_from(["p=1", "p=10", "p=2", "p=é", "p=~", "p=!", "p"])
FILES = st.sampled_from(["", "a", "b/c", "b/d", "\U0010ffff", "0"])


class Listing:
    """Keys in S3's order, a few on each page, and how many pages were asked for."""

    def __init__(self, keys: set[str], *, limit: int) -> None:
        self._keys = sorted(keys, key=str.encode)
        self._limit = limit
        self.requests = 0

    def pages(self, prefix: str, after: str) -> Iterator[Page]:
        keys = [key for key in self._keys if key.startswith(prefix) and key.encode() > after.encode()]
        while True:
            self.requests += 1
            found, keys = keys[: self._limit], keys[self._limit :]
            yield Page(tuple(Object(key, 1, "") for key in found), bool(keys))
            if not keys:
                return


@given(
    st.sets(st.tuples(NAMES, FILES).map(lambda parts: f"t/{parts[0]}/{parts[1]}")),
    st.sets(NAMES.map(lambda name: f"t/{name}/"), min_size=1),
    st.integers(1, 4),
)
def test_each_directory_gets_what_is_below_it(keys: set[str], wanted: set[str], limit: int) -> None:
    found = dict(objects_below(wanted, Listing(keys, limit=limit).pages))
    expected = {prefix: sorted((k for k in keys if k.startswith(prefix)), key=str.encode) for prefix in wanted}
    assert {prefix: [one.key for one in objects] for prefix, objects in found.items()} == expected


def test_neighbours_come_in_one_request_and_what_is_between_in_none() -> None:
    keys = {f"t/p={number:05}/{file}" for number in range(10_000) for file in "abc"}
    listing = Listing(keys, limit=1000)
    assert len(dict(objects_below({f"t/p={number:05}/" for number in range(10_000)}, listing.pages))) == 10_000
    assert listing.requests == 30
    listing.requests = 0
    dict(objects_below({"t/p=00001/", "t/p=09999/"}, listing.pages))
    assert listing.requests == 2


def test_a_directory_below_another_is_refused() -> None:
    with pytest.raises(ValueError, match="below one another"):
        dict(objects_below({"t/", "t/p/"}, Listing(set(), limit=1).pages))
