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

    def below(self, prefix: str) -> Iterator[Object]:
        """Yield the objects below a prefix that is behind all earlier ones."""
        self._go_to(prefix)
        while True:
            yield from (one for one in self._page.objects if one.key.startswith(prefix))
            if not self._page.more or not self._may_continue(prefix):
                return
            self._page = next(self._pages)

    def _go_to(self, prefix: str) -> None:
        """Skip what is between: a new listing begins where this page does not reach."""
        if self._page.more and not self._reaches(prefix):
            # NB: the listing begins behind this key, and a marker's key is the prefix itself.
            self._pages = self._list(self._folder, prefix.removesuffix("/"))
            self._page = next(self._pages)

    def _reaches(self, prefix: str) -> bool:
        return bool(self._page.objects) and self._page.objects[-1].key.encode() >= prefix.encode()

    def _may_continue(self, prefix: str) -> bool:
        """Whether the next page may have more below a prefix: the last key of this one is not behind it."""
        last = self._page.objects[-1].key if self._page.objects else ""
        return last.startswith(prefix) or last.encode() < prefix.encode()
