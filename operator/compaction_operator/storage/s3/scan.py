"""Objects below many directories by few requests: neighbours in the order of keys come in one page."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from os.path import commonprefix

from compaction_operator.storage.s3.objects import Object, Page

ListPages = Callable[[str, str], Iterator[Page]]
"""Yields the pages of the objects whose keys begin with a prefix, behind a key."""


def objects_below(prefixes: Iterable[str], pages: ListPages) -> Iterator[tuple[str, list[Object]]]:
    """Yield each prefix, which ends with "/", and the objects below it.

    Raises ValueError if one prefix is below another. NB: S3 orders keys by their UTF-8 bytes.
    """
    ordered = sorted(set(prefixes), key=str.encode)
    if any(inner.startswith(outer) for outer, inner in pairwise(ordered)):
        raise ValueError("directories that are listed together must not be below one another")
    scan = _Scan(commonprefix(ordered), pages)  # noqa: RUF071 - keys, not paths
    for prefix in ordered:
        yield prefix, list(scan.below(prefix))


class _Scan:
    """A position in the listing of a folder, which only goes forward."""

    def __init__(self, folder: str, pages: ListPages) -> None:
        self._folder = folder
        self._list = pages
        self._pages: Iterator[Page] = iter(())
        self._page = Page((), more=True)
        self._next = 0

    def below(self, prefix: str) -> Iterator[Object]:
        """Yield the objects below a prefix that is behind all earlier ones."""
        self._jump_to(prefix)
        while (found := self._peek()) and found.key.encode() < prefix.encode():
            self._next += 1
        while (found := self._peek()) and found.key.startswith(prefix):
            self._next += 1
            yield found

    def _peek(self) -> Object | None:
        """Return the next object, None behind the last one."""
        while self._next == len(self._page.objects):
            if not self._page.more:
                return None
            self._page, self._next = next(self._pages), 0
        return self._page.objects[self._next]

    def _jump_to(self, prefix: str) -> None:
        """Begin a new listing where this page does not reach, to skip what is between."""
        last = self._page.objects[-1].key if self._page.objects else ""
        if self._page.more and last.encode() < prefix.encode():
            # NB: the listing begins behind this key, and a marker's key is the prefix itself.
            self._pages = self._list(self._folder, prefix.removesuffix("/"))
            self._page, self._next = next(self._pages), 0
