"""The web page: what it shows of the controller's memory, that text stays text, and what it refuses."""

import base64
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import urlopen

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.controller.app import _look
from compaction_operator.controller.election import Election
from compaction_operator.controller.kube.lease import Lease
from compaction_operator.controller.kube.resources import (
    ResourceKind,
    TableKey,
    read_cleanup,
    read_compaction,
    read_policy,
)
from compaction_operator.controller.page import Looked, Seen, Site, Unseen
from compaction_operator.controller.page.debt import Debts
from compaction_operator.controller.page.directories import Kind, drawings
from compaction_operator.controller.page.layout import size, span
from compaction_operator.controller.web import serve_page
from compaction_operator.policy.memory import Problem
from tests.support import fleet
from tests.support.fleet import NOW, busy, cleanup, ended, hive, hudi, queued, reader, running, seen
from tests.unit.controller.sandbox import Sandbox, cleanup_raw, compaction_raw, entry_json, runs
from tests.unit.controller.test_policies import memory, policy_raw, started, state

HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e</style><script>"
SHOWN = HOSTILE.replace("\u202e", "\ufffd")
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "nav", "section", "h1", "h2", "h3"),
    *(
        "h4",
        "p",
        "a",
        "ul",
        "li",
        "dl",
        "dt",
        "dd",
        "div",
        "span",
        "b",
        "time",
        "pre",
        "code",
        "progress",
        "svg",
        "rect",
    ),
    *("form", "label", "input", "button", "table", "thead", "tbody", "tr", "th", "td"),
}
PATHS = ("/ui/", "/ui/tables", "/ui/compactions", "/ui/cleanups", "/ui/tables/main/sales.orders")


@dataclass
class Page(HTMLParser):
    """A page as a browser takes it apart: elements with their attributes, and the text."""

    status: str
    headers: dict[str, str]
    body: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""
    style: str = ""
    depth: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.depth.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.depth.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.depth[-1:] == ["style"]:
            self.style += data
        else:
            self.text += data + (" " if self.depth[-1:] in (["td"], ["dt"], ["dd"], ["h2"]) else "")

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]

    @property
    def links(self) -> list[str]:
        return [one["href"] or "" for one in self.all("a")]


def get(shown: Seen | Unseen | Site, path: str = "/ui/", query: str = "", *, method: str = "GET") -> Page:
    site = shown if isinstance(shown, Site) else Site(lambda: shown, clock=lambda: NOW, sleep=lambda _: None)
    answer: dict[str, Any] = {}

    def start(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        answer.update(status=status, headers=dict(headers))

    body = b"".join(site({"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": method}, start))
    return Page(answer["status"], answer["headers"], body.decode())


def hostile() -> Seen:
    """What people and readers may choose is hostile: names, users, messages, partitions, directories."""
    raw = compaction_raw("nightly", table={"database": HOSTILE, "name": HOSTILE}, warehouse="main")
    waits = {"type": "Succeeded", "status": "Unknown", "reason": HOSTILE, "message": HOSTILE, "lastTransitionTime": "x"}
    works = [
        read_compaction({**raw, "status": {"conditions": [waits]}}),
        read_compaction({**raw, "status": {"conditions": [waits], "completionTime": HOSTILE, "phase": "Failed"}}),
        read_compaction({**raw, "status": {"attempt": 1, "attemptStartTime": HOSTILE,
                                           "podTrouble": {"reason": HOSTILE, "message": HOSTILE}}}),
    ]  # fmt: skip
    entry = entry_json(HOSTILE, obsolete=[{"name": f"delta_{HOSTILE}", "reason": HOSTILE}], outputs=[HOSTILE])
    table = {"database": HOSTILE, "name": HOSTILE, "createTime": 1, "location": HOSTILE}
    blocker = {"kind": "Lock", "id": 1, "user": HOSTILE, "host": HOSTILE, "agent": HOSTILE, "since": HOSTILE}
    status = {
        "blockers": [blocker],
        "blockerCount": 1,
        "baseline": {"time": HOSTILE, "txnHighWaterMark": 1, "lockIds": []},
        "partitions": [{"partition": HOSTILE, "state": "Published"}],
    }
    journal = read_cleanup({**cleanup_raw(entries=[entry], table=table, warehouse="main"), "status": status})
    found = replace(hive(0), name=f"{HOSTILE}.{HOSTILE}".lower(), problem=Problem(HOSTILE, HOSTILE))
    found = replace(found, partitions=(replace(found.partitions[0], name=HOSTILE),))
    return seen(works, [journal], [found])


ADDRESS = "/ui/tables/main/" + f"{HOSTILE}.{HOSTILE}".lower().encode().decode("latin-1")


@pytest.mark.parametrize("path", ["/ui/", "/ui/tables", "/ui/compactions", "/ui/cleanups", ADDRESS])
def test_text_stays_text(path: str) -> None:
    """Whatever names and messages hold: there is no element, no attribute and no address that is not the page's own."""
    page = get(hostile(), path)
    assert page.status == "200 OK"
    assert {tag for tag, _ in page.elements} <= ELEMENTS
    assert SHOWN in page.text or SHOWN.lower() in page.text
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    for address in (*page.links, *(form["action"] or "" for form in page.all("form"))):
        assert not urlsplit(address).scheme
        assert address == "#content" or address.lstrip("./").partition("?")[0].split("/")[0] in (
            "", "tables", "compactions", "cleanups"
        )  # fmt: skip
    assert "\u202e" not in page.body


def test_a_search_stays_text() -> None:
    page = get(busy(20, tables=3), "/ui/tables", "q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert page.all("input")[0]["value"] == '"><script>alert(1)</script>'
    assert not page.all("script")


def test_a_table_that_no_page_knows_is_not_repeated() -> None:
    page = get(seen(), "/ui/tables/main/<script>.x")
    assert (page.status, page.all("script")) == ("404 Not Found", [])


@pytest.mark.parametrize("path", PATHS)
def test_the_policy_allows_the_one_style_sheet_and_nothing_else(path: str) -> None:
    page = get(busy(40, tables=12), path)
    given = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    policy = page.headers["Content-Security-Policy"]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{given}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert len(page.all("style")) == 1
    assert not [attributes for _, attributes in page.elements if {"style", "src"} & attributes.keys()]
    assert page.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", PATHS)
def test_headings_and_landmarks_are_right(path: str) -> None:
    """One title, no level left out, each region once, and all that is drawn is said as text too."""
    page = get(busy(40, tables=12), path)
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3", "h4")]
    assert (levels.count(1), levels[0]) == (1, 1)
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert [len(page.all(name)) for name in ("header", "main", "footer")] == [1, 1, 1]
    names = [one["aria-label"] for one in page.all("nav")]
    assert len(names) == len({*names})
    assert page.all("html")[0]["lang"] == "en"
    assert all(one["aria-hidden"] == "true" for one in page.all("svg"))
    assert all(one["aria-label"] for one in (*page.all("progress"), *page.all("table")))
    assert page.links[0] == "#content"
    assert page.depth == []
    # Browsers differ in what they make of rows and cells that a style sheet turns into blocks.
    roles = {
        "table": "table",
        "thead": "rowgroup",
        "tbody": "rowgroup",
        "tr": "row",
        "td": "cell",
        "th": "columnheader",
    }
    assert all(attributes["role"] == roles[tag] for tag, attributes in page.elements if tag in roles)


def test_each_link_leads_to_a_page_below_any_prefix() -> None:
    """A proxy may serve the page below a path of its own."""
    shown, prefix = busy(240, tables=120), "http://proxy/compaction"
    left, known = [f"{prefix}/ui/"], set[str]()
    while left and len(known) < 60:
        address = left.pop()
        assert address.startswith(f"{prefix}/ui/")
        parts = urlsplit(address.removeprefix(prefix))
        page = get(shown, parts.path, parts.query)
        assert page.status == "200 OK", address
        found = {urljoin(address, link) for link in page.links if not link.startswith("#")}
        left += sorted(found - known)
        known |= found
    assert f"{prefix}/ui/tables?page=2" in known


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%2fb", "a/b", "../..", "a&page=2", "ä ö"])
def test_any_name_leads_to_its_page(name: str) -> None:
    """And from there back."""
    shown = seen(tables=[replace(hive(0), name=f"sales.{name}")])
    (link,) = [one for one in get(shown, "/ui/tables").links if one.startswith("tables/")]
    path = urlsplit(urljoin("http://proxy/ui/tables", link)).path
    page = get(shown, unquote(path).encode().decode("latin-1"))
    assert (page.status, f"{name} - compaction-operator" in page.text) == ("200 OK", True)
    assert urljoin(f"http://proxy{path}", page.links[1]) == "http://proxy/ui/"


@pytest.mark.parametrize("path", ["/", "/ui"])
def test_the_root_leads_to_the_first_page(path: str) -> None:
    page = get(seen(), path)
    assert (page.status, urljoin(f"http://proxy/x{path}", page.headers["Location"])) == (
        "302 Found",
        "http://proxy/x/ui/",
    )


@pytest.mark.parametrize("path", ["/ui/nix", "/ui/compactions/x", "/metrics", "/ui/tables/main/sales.none"])
def test_other_paths_are_not_found(path: str) -> None:
    assert get(busy(20, tables=3), path).status == "404 Not Found"


def test_only_get_is_answered() -> None:
    page = get(busy(20, tables=3), method="POST")
    assert (page.status, page.headers["Allow"]) == ("405 Method Not Allowed", "GET, HEAD")
    page = get(busy(20, tables=3), method="HEAD")
    assert (page.status, page.body) == ("200 OK", "")
    assert int(page.headers["Content-Length"]) > 1000


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("page=0", "page='0': write a number from 1"),
        ("page=-1", "page='-1'"),
        ("page=x", "page='x'"),
        ("page=%D9%A1", "page="),
        ("page=999999999999", "page='999999999999'"),
        ("q=" + "x" * 201, "q is longer than 200 characters"),
        ("x=1&" * 11, "fields"),
    ],
)
def test_a_query_that_cannot_be_understood(query: str, says: str) -> None:
    page = get(seen(), "/ui/tables", query)
    assert page.status == "400 Bad Request"
    assert says in page.text


def test_a_standby_says_who_leads_and_asks_again() -> None:
    page = get(Unseen(standby=True, leader="operator-abc-1"))
    assert page.status == "503 Service Unavailable"
    assert "operator-abc-1 leads" in page.text
    assert {"http-equiv": "refresh", "content": "2"} in page.all("meta")
    assert "knows of no leader" in get(Unseen(standby=True)).text
    starting = get(Unseen(standby=False))
    assert (starting.status, "has not read all resources" in starting.text) == ("503 Service Unavailable", True)


def test_other_pages_do_not_load_themselves_again() -> None:
    """That would take a reader's place and focus away."""
    assert not [one for one in get(busy(20, tables=3)).all("meta") if "http-equiv" in one]


def test_an_error_of_ours_is_no_page(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Seen:
        raise ValueError("a bug")

    page = get(Site(broken, clock=lambda: NOW))
    assert page.status == "500 Internal Server Error"
    assert "a bug" in caplog.text
    assert "a bug" not in page.text


# What the pages show


def test_the_fleet_at_a_glance() -> None:
    page = get(busy(40, tables=12))
    assert "tables that policies know 14 of them due 14 deltas 661 files that readers need not open 1,992" in page.text
    assert "delete events to data 2.6 % wasted by one read of all 327 MiB compactions that run 4" in page.text
    for says in ("sales.orders", "6/10 partitions, 68%", "TableBusy", "alice@etl-7", "64.0 MiB → 44.8 MiB", "keep"):
        assert says in page.text, says


def rows(page: Page, first: str) -> list[str]:
    """The tables that a page links to, without those of its menu."""
    return [link.rpartition("/")[2] for link in page.links if link.startswith(first)]


def test_tables_are_sorted_by_debt_and_paged() -> None:
    shown = busy(20, tables=150)
    first, second = get(shown, "/ui/tables"), get(shown, "/ui/tables", "page=2")
    assert rows(first, "tables/")[:3] == ["sales.orders", "sales.customers", "sales.clicks"]
    assert [len(rows(page, "tables/")) for page in (first, second)] == [100, 52]
    assert {*rows(first, "tables/")}.isdisjoint(rows(second, "tables/"))
    assert "152 tables, page 1 of 2" in first.text
    found = get(shown, "/ui/tables", "q=SALES.ORD")
    assert rows(found, "tables/") == [
        "sales.orders",
        "sales.orders1",
        "sales.orders2",
        "sales.orders3",
        "sales.orders4",
    ]
    assert "tables?q=WEB&page=2" not in get(shown, "/ui/tables", "q=WEB").links


@pytest.mark.parametrize("path", ["/ui/", "/ui/tables", "/ui/compactions", "/ui/cleanups"])
def test_a_page_has_few_rows_however_much_there_is(path: str) -> None:
    shown = busy(1000, tables=500)
    shown = replace(shown, compactions=[*shown.compactions, *map(queued, range(300))])
    waiting = [cleanup(2000 + one, blockers=[reader()] * 20) for one in range(300)]
    page = get(replace(shown, cleanups=[*shown.cleanups, *waiting]), path)
    assert len(page.all("tr")) <= 3 * 101
    assert len(page.all("li")) < 1000


def test_a_table_of_two_policies_is_listed_once_as_it_was_read_last() -> None:
    old, new = hive(0), replace(hive(5), name=hive(0).name, looked=NOW + timedelta(seconds=1))
    policies = [Looked(fleet.policy("one"), fleet.memory([new])), Looked(fleet.policy("two"), fleet.memory([old]))]
    (found,) = Debts().owed(seen(policies=policies))
    assert (found.state, found.policy) == (new, "analytics/one")


def test_warehouses_of_one_metastore_have_the_same_tables() -> None:
    raw = policy_raw("other", warehouse="mirror")
    policies = [Looked(fleet.policy(), fleet.memory([hive(0)])), Looked(read_policy(raw), fleet.memory([hive(0)]))]

    def place(key: TableKey) -> TableKey:
        return replace(key, warehouse="main")

    assert len(Debts().owed(seen(policies=policies, place=place))) == 1
    assert len(Debts().owed(seen(policies=policies))) == 2


def test_debt_is_added_up_again_only_for_what_was_listed_again() -> None:
    debts, tables = Debts(), [hive(0), hive(1)]
    first = debts.owed(seen(tables=tables))
    second = debts.owed(seen(tables=[tables[0], replace(tables[1], version="2")]))
    assert second[0] is first[0]
    assert second[1] is not first[1]
    late = seen(tables=tables)
    late.policies[0].memory.due_since = {tables[0].name: {"": NOW}}
    assert {one.state.name: one.due_since for one in debts.owed(late)} == {"sales.orders": NOW, "sales.customers": None}


def test_whom_a_cleanup_waits_for_and_since_when() -> None:
    leaked = reader("etl", "old", minutes=4000, kind="Transaction", id=91, txnId=None, health="LikelyLeaked")
    shown = seen(cleanups=[cleanup(1, blockers=[reader(), leaked]), cleanup(5, blockers=[reader("bob", "vm")] * 9)])
    page = get(shown, "/ui/cleanups")
    assert "lock 4 (transaction 7) of alice@etl-7, since 2026-11-21 09:14:00 (16 min ago)" in page.text
    assert "transaction 91 of etl@old (likely leaked), since 2026-11-18 14:50:00 (2 d ago)" in page.text
    assert "and 4 more readers" in page.text
    assert page.text.index("bob@vm") < page.text.index("alice@etl-7"), "the oldest comes first"
    assert "bob@vm" not in get(shown, "/ui/cleanups", "q=alice").text


def test_history_says_what_was_before_and_after() -> None:
    page = get(seen([ended(3), ended(7, failed=True)]), "/ui/compactions")
    assert "48 → 6" in page.text
    assert "67.0 MiB → 46.9 MiB" in page.text
    assert "RowTypesDiffer a column changed" in page.text


def test_history_has_pages() -> None:
    shown = seen([running(0), *map(ended, range(130))])
    second = get(shown, "/ui/compactions", "page=2")
    assert "analytics/keep-129" in second.text
    assert "keep-0-run" not in second.text, "what runs is on the first page"
    assert "130 ended compactions, page 2 of 2" in second.text


# One table


def stages(page: Page) -> str:
    _, _, rest = page.text.partition("Directories")
    return rest.partition("What runs or waits")[0]


def test_a_table_before_now_and_after() -> None:
    works = [running(0), queued(0)]
    page = get(seen(works, [cleanup(0, blockers=[reader()])], [hive(0)]), "/ui/tables/main/sales.orders")
    drawn = stages(page)
    assert "Before: replaced by the last compaction, keep-08 deltas, 16 files, 96.0 MiB" in drawn
    assert "base to write id 40, 4 files, 700 MiB" in drawn
    assert "203 deltas, with delete deltas, 609 files" in drawn
    assert "8 obsolete, still theredelta_0000001_0000001_0000" in drawn
    assert "After the next compaction (Major compaction, keep-0-run)one base, 4 files, 1.6 GiB" in drawn
    assert len([one for one in page.all("rect") if one["class"] == "delta"]) == 8 + 60
    assert "alice@etl-7" in page.text


def test_directories_that_are_gone_are_not_drawn() -> None:
    (drawn,) = drawings(hive(0), [cleanup(0, done=True)], CompactionType.MINOR)
    assert drawn.now is not None
    assert [one.kind for one in drawn.now] == [Kind.BASE, Kind.DELTA, Kind.DELETE]


def test_what_is_in_the_quarantine_is_still_there() -> None:
    """Until it is deleted from there."""
    raw = dict(cleanup(0).raw)
    first, second = (f"delta_{one:07}_{one:07}_0000" for one in (1, 2))
    status = {"partition": "", "state": "Published", "quarantined": [first, second], "deleted": [first]}
    hidden = read_cleanup({**raw, "status": {**raw["status"], "partitions": [status]}})
    (drawn,) = drawings(None, [hidden], CompactionType.MINOR)
    assert drawn.now is not None
    assert [(one.label, one.names) for one in drawn.now[1:2]] == [("in the quarantine", (second,))]
    assert drawn.now[2].count == 6


def test_what_was_not_published_says_nothing_about_before() -> None:
    raw = dict(cleanup(0).raw)
    unsettled = read_cleanup({**raw, "status": {**raw["status"], "partitions": []}})
    (drawn,) = drawings(hive(0), [unsettled], CompactionType.MINOR)
    assert drawn.before is None


def test_partitions_with_the_largest_debt_are_drawn() -> None:
    page = get(seen(tables=[hive(0), hive(1, partitions=30)]), "/ui/tables/main/sales.customers")
    assert page.text.count("Partition day=") == 10
    assert "20 more partitions have something to merge" in page.text
    assert "The journal of the last compaction is not kept any more." in page.text


def test_a_hudi_table() -> None:
    drawn = stages(get(seen(tables=[hudi()]), "/ui/tables/main/lake.events"))
    assert "30 log files of 7 delta commits, 30 files, 210 MiB" in drawn
    assert "After the next compaction (Compaction, if you start one: no policy is about to)" in drawn
    assert "new base files, 4 files" in drawn


def test_a_table_that_no_policy_knows_says_how_to_see_it() -> None:
    """What its last compaction wrote is known, and what is not deleted yet."""
    journal = cleanup(0, blockers=[reader()], table="hr.it's")
    page = get(seen(cleanups=[journal]), "/ui/tables/main/hr.it's")
    assert "compaction-operator plan --location '/warehouse/hr.db/it'\"'\"'s' --type major --write-ids" in page.text
    drawn = stages(page)
    assert "written by the last compaction, 2 files, 71.0 MiBdelta_0000001_0000008" in drawn
    assert "8 obsolete, still there" in drawn
    assert "Not known: see above." in drawn


def test_a_table_that_is_left_alone_says_why() -> None:
    found = replace(hive(0), partitions=(), problem=Problem("OptedOut", "its property is off"))
    assert "left alone: OptedOut its property is off" in get(seen(tables=[found]), "/ui/tables/main/sales.orders").text


def test_sizes_and_times() -> None:
    assert [size(one) for one in (0, 1023, 1024, 10 * 1024**2, 1500 * 1024**3, 1024**6)] == [
        "0 B", "1023 B", "1.0 KiB", "10.0 MiB", "1.5 TiB", "1024 PiB",
    ]  # fmt: skip
    assert [span(one) for one in (-5, 59, 60, 7200, 200_000)] == ["0 s", "59 s", "1 min", "2 h", "2 d"]


# The controller


@runs
async def test_the_controllers_memory_is_shown() -> None:
    box = Sandbox()
    box.create()
    assert box.controller.seen() is None
    box = await started(memory(state("sales.orders"), state("sales.calm")), dryRun=True)
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("by-hand", suspend=True))
    await box.run()
    found = box.controller.seen()
    assert found is not None
    page = get(found, "/ui/tables/lake/sales.orders")
    assert "default/by-hand" in page.text
    assert "default/keep (warehouse lake): due, but kept back (DryRun)" in page.text
    assert "As policy default/keep read it" in page.text
    assert rows(get(found, "/ui/tables"), "tables/") == ["sales.orders", "sales.calm"]


@runs
async def test_a_table_that_no_policy_selects_has_no_explanation() -> None:
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("by-hand", suspend=True))
    await box.start()
    found = box.controller.seen()
    assert found is not None
    assert "There is no CompactionPolicy." in get(found, "/ui/tables/lake/sales.orders").text


class _Leases:
    """A Lease that another process holds."""

    def read(self) -> Lease:
        return Lease({"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "operator-7f9c-x_1234"}})


def test_a_standby_knows_the_pod_that_leads() -> None:
    leases: Any = _Leases()
    box = Sandbox()
    box.create()
    election = Election(leases, identity="operator-other_1", clock=lambda: 100.0)
    assert _look(box.controller, election) == Unseen(standby=True, leader="")
    assert not election.stand()
    assert _look(box.controller, election) == Unseen(standby=True, leader="operator-7f9c-x")
    assert _look(box.controller, None) == Unseen(standby=False)


def test_pages_are_served() -> None:
    server = serve_page(0, Site(lambda: busy(20, tables=3), clock=lambda: NOW))
    try:
        with urlopen(f"http://127.0.0.1:{server.server_port}/", timeout=10) as answer:
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert b"<h1>Fleet</h1>" in answer.read()
        with pytest.raises(HTTPError, match="404") as refused:
            urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10)
        refused.value.close()
    finally:
        server.shutdown()
        server.server_close()


# However many ask


@dataclass
class Ticking:
    """A clock that goes while a page is made and while it rests."""

    now: float = 0.0
    rests: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.rests.append(round(seconds, 3))
        self.now += seconds


def paced(time: Ticking, look: Callable[[], Seen]) -> Site:
    return Site(look, clock=lambda: NOW, ticks=lambda: time.now, sleep=time.sleep)


def test_after_each_page_there_is_a_rest_as_long_as_it_took() -> None:
    time, shown = Ticking(), seen()

    def look() -> Seen:
        time.now += 0.2
        return shown

    site = paced(time, look)
    for _ in range(3):
        get(site)
    assert time.rests == [0.0, 0.2, 0.2]
    time.now += 10
    get(site)
    assert time.rests[-1] == 0.0


def test_one_page_is_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second request waits for the first, and not for ever."""
    monkeypatch.setattr("compaction_operator.controller.page.site.PATIENCE", 0.0)
    begun, go_on, shown = threading.Event(), threading.Event(), seen()

    def look() -> Seen:
        begun.set()
        assert go_on.wait(30)
        return shown

    site = Site(look, clock=lambda: NOW)
    first: list[Page] = []
    thread = threading.Thread(target=lambda: first.append(get(site)))
    thread.start()
    assert begun.wait(30)
    busy_now = get(site)
    go_on.set()
    thread.join(30)
    assert (busy_now.status, first[0].status) == ("503 Service Unavailable", "200 OK")
    assert "Too many ask at once" in busy_now.text
