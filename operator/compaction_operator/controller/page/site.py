"""The web page as a WSGI application: it answers GET alone, from memory, one page at a time."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIEnvironment

from compaction_operator.controller.kube.times import Clock
from compaction_operator.controller.page import layout
from compaction_operator.controller.page.cleanups import cleanups
from compaction_operator.controller.page.compactions import compactions
from compaction_operator.controller.page.debt import Debts
from compaction_operator.controller.page.html import Child, Html, document, tag
from compaction_operator.controller.page.layout import MOST_TEXT, Links, Query
from compaction_operator.controller.page.overview import overview
from compaction_operator.controller.page.seen import Seen, Unseen
from compaction_operator.controller.page.style import SOURCE
from compaction_operator.controller.page.table import table
from compaction_operator.controller.page.tables import tables

log = logging.getLogger(__name__)

ROOT = "/ui/"
PATIENCE = 10.0
"""Seconds for which a request waits for those before it."""
AGAIN = 2
"""Seconds after which a browser asks again: its next connection may reach the leader."""
MOST_PAGES = 100_000
HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    (
        "Content-Security-Policy",
        f"default-src 'none'; style-src {SOURCE}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)
Answer = tuple[HTTPStatus, Html]


class Site:
    """The pages below /ui/. `look` returns what they show, in any thread.

    At most one page is made at a time, and after each there is a pause as long as it took: however many ask, half of a
    core at most is busy with pages, and the controller's own work goes on.
    """

    def __init__(
        self,
        look: Callable[[], Seen | Unseen],
        *,
        clock: Clock,
        ticks: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._look = look
        self._clock = clock
        self._ticks = ticks
        self._sleep = sleep
        self._debts = Debts()
        self._turn = threading.Lock()
        self._rest_until = 0.0

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        path, method = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace"), environ["REQUEST_METHOD"]
        if path in ("/", "/ui"):
            start_response("302 Found", [("Location", "ui/")])
            return []
        status, found = self._answer(path, method, environ.get("QUERY_STRING", ""))
        body = document(found)
        allowed = [("Allow", "GET, HEAD")] if status is HTTPStatus.METHOD_NOT_ALLOWED else []
        headers = [*HEADERS, ("Content-Length", str(len(body))), *allowed]
        start_response(f"{status.value} {status.phrase}", headers)
        return [] if method == "HEAD" else [body]

    def _answer(self, path: str, method: str, query: str) -> Answer:
        # NB: a table's name may have a slash, which is no step of the address.
        links = Links("../" * (len(path.removeprefix(ROOT).split("/", 2)) - 1))
        if method not in ("GET", "HEAD"):
            return self._error(HTTPStatus.METHOD_NOT_ALLOWED, "These pages change nothing: use GET.", links)
        try:
            asked = parsed(query)
        except ValueError as error:
            return self._error(HTTPStatus.BAD_REQUEST, str(error), links)
        if not self._turn.acquire(timeout=PATIENCE):
            return self._error(HTTPStatus.SERVICE_UNAVAILABLE, "Too many ask at once. Try it again.", links)
        try:
            return self._made(path, asked, links)
        except Exception:
            log.exception("a page could not be made: %r", path)
            return self._error(HTTPStatus.INTERNAL_SERVER_ERROR, "The controller's log says what failed.", links)
        finally:
            self._turn.release()

    def _made(self, path: str, asked: Query, links: Links) -> Answer:
        self._sleep(max(0.0, self._rest_until - self._ticks()))
        began = self._ticks()
        try:
            seen = self._look()
            if isinstance(seen, Unseen):
                return self._unseen(seen, links)
            found = self._page(path, seen, asked, links)
        finally:
            ended = self._ticks()
            self._rest_until = ended + (ended - began)
        if found is None:
            return self._error(
                HTTPStatus.NOT_FOUND, "There is no such page, or the controller knows no such table.", links
            )
        return HTTPStatus.OK, found

    def _page(self, path: str, seen: Seen, asked: Query, links: Links) -> Html | None:
        """Return the page of a path, None if there is none."""
        name, _, rest = path.removeprefix(ROOT).partition("/")
        if not path.startswith(ROOT) or (rest and name != "tables"):
            return None
        if name == "compactions":
            return compactions(seen, links, asked)
        if name == "cleanups":
            return cleanups(seen, links, asked)
        owed = self._debts.owed(seen)
        if rest:
            warehouse, _, named = rest.partition("/")
            return table(seen, owed, links, warehouse=warehouse, name=named.lower())
        if name == "tables":
            return tables(seen, owed, links, asked)
        return None if name else overview(seen, owed, links)

    def _unseen(self, seen: Unseen, links: Links) -> Answer:
        """Say why there is nothing to show, and let the browser ask again: a Service sends it to any controller."""
        if not seen.standby:
            said: list[Child] = [tag("p", "This controller leads and has not read all resources yet.")]
        else:
            by = f": {seen.leader} leads" if seen.leader else ", and knows of no leader"
            said = [
                tag("p", f"This controller stands by{by}. It has nothing to show."),
                tag("p", "This page asks again by itself. Behind a Service it reaches the leader soon. "
                         "A forwarded port stays with one pod: forward the leader's instead."),
            ]  # fmt: skip
        page = layout.page("Not the leader" if seen.standby else "Starting", *said, links=links, here="none",
                           now=self._clock(), again=AGAIN)  # fmt: skip
        return HTTPStatus.SERVICE_UNAVAILABLE, page

    def _error(self, status: HTTPStatus, text: str, links: Links) -> Answer:
        return status, layout.page(status.phrase, tag("p", text), links=links, here="none", now=self._clock())


def parsed(text: str) -> Query:
    """Parse the query of an address; what no page asks for is left out. Raises ValueError, naming the parameter."""
    given = parse_qs(text, max_num_fields=10)
    wanted, number = given.get("q", [""])[0].strip(), given.get("page", ["1"])[0]
    if len(wanted) > MOST_TEXT:
        raise ValueError(f"q is longer than {MOST_TEXT} characters: search for less.")
    if not (number.isascii() and number.isdigit() and len(number) < 7 and 0 < int(number) <= MOST_PAGES):
        raise ValueError(f"page={number[:20]!r}: write a number from 1 to {MOST_PAGES}.")
    return Query(wanted, int(number))
