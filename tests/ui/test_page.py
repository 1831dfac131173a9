"""The web page in headless Chromium: by keyboard, on a phone, in both colour schemes, and against hostile names.

With PICTURES=docs the pictures of the documentation are written there.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sandbox.harness.browser import PROGRAM, Browser

from compaction_operator.controller.page import Seen, Site, Unseen
from compaction_operator.controller.web import serve_page
from tests.support import fleet
from tests.support.fleet import NOW, busy
from tests.unit.controller.test_page import hostile

pytestmark = pytest.mark.browser

SHOWN = busy(60, tables=20, partitions=8)
PATHS = ("", "tables", "compactions", "cleanups", "tables/main/sales.orders", "tables/main/sales.customers", "nix")
LARGEST_PICTURE = 150_000
CONTRAST = """(() => {
  const parsed = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((s, c, i) => s + c * [.2126, .7152, .0722][i], 0);
  const behind = one => { for (; one; one = one.parentElement) {
    const c = parsed(getComputedStyle(one).backgroundColor); if (c.length < 4 || c[3] > 0) return c; }
    return [255, 255, 255]; };
  const low = [];
  for (const one of document.querySelectorAll("body *")) {
    if (![...one.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [parsed(getComputedStyle(one).color), behind(one)].map(light).sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) low.push(one.outerHTML.slice(0, 80));
  }
  return low; })()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Browser.is_installed():
        pytest.fail(f"no {PROGRAM}; run: apt-get install {PROGRAM} fonts-dejavu-core")
    with Browser() as started:
        yield started


@contextmanager
def served(shown: Seen | Unseen) -> Iterator[str]:
    """The page at a port of its own; yields its address."""
    server = serve_page(0, Site(lambda: shown, clock=lambda: NOW))
    try:
        yield f"http://127.0.0.1:{server.server_port}/ui/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(SHOWN) as at:
        yield at


def focus(browser: Browser) -> str:
    """Return the text of what has the focus, after a check that it can be seen."""
    style, text = browser.ask(
        "(() => { const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();"
        "return [[style.outlineStyle, parseFloat(style.outlineWidth), box.right > 0, box.width > 0],"
        "one.textContent || one.id] })()"
    )
    assert style[0] != "none", text
    assert style[1] >= 2, text
    assert style[2:] == [True, True], text
    found: str = text
    return found


def tab_to(browser: Browser, wanted: str) -> list[str]:
    """Press Tab until something has the focus; return all that had it."""
    passed: list[str] = []
    while not passed or passed[-1] != wanted:
        assert len(passed) < 80, passed
        browser.press("Tab")
        passed.append(focus(browser))
    return passed


def test_everything_is_reached_by_keyboard(browser: Browser, address: str) -> None:
    """From the first page to a table by search, with the focus visible at each step."""
    browser.shape(1200, 900)
    browser.open(address)
    passed = tab_to(browser, "sales.customers")
    assert passed[:5] == ["Skip to the content", "Overview", "Tables", "Compactions", "Cleanups"]
    browser.open(address)
    tab_to(browser, "Tables")
    browser.follow("Enter")
    assert browser.ask("document.querySelector('h1').textContent") == "Tables by debt"
    tab_to(browser, "q")
    browser.type("orders")
    browser.follow("Enter")
    tab_to(browser, "sales.orders")
    browser.follow("Enter")
    assert browser.ask("document.querySelector('h1').textContent") == "sales.orders"


def test_the_menu_can_be_skipped(browser: Browser, address: str) -> None:
    browser.open(f"{address}tables")
    browser.press("Tab")
    assert focus(browser) == "Skip to the content"
    browser.press("Enter")
    browser.press("Tab")
    assert focus(browser) == "compactions", "the first link of the content"


@pytest.mark.parametrize("width", [320, 390, 800, 1190, 1280])
@pytest.mark.parametrize("path", PATHS)
def test_nothing_lies_beyond_the_edge(browser: Browser, address: str, path: str, width: int) -> None:
    browser.shape(width, 800, phone=width < 800)
    browser.open(f"{address}{path}")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("innerWidth") == width


def test_long_names_are_broken_on_a_phone(browser: Browser) -> None:
    """128 characters are what the metastore allows of a name."""
    named = replace(fleet.hive(0), name=f"{'d' * 128}.{'t' * 128}")
    waiting = fleet.cleanup(0, blockers=[fleet.reader("u" * 200, "h" * 250)], table=named.name)
    browser.shape(320, 800, phone=True)
    with served(fleet.seen([], [waiting], [named])) as at:
        for path in ("", "tables", "cleanups", f"tables/main/{named.name}"):
            browser.open(f"{at}{path}")
            assert browser.ask("document.documentElement.scrollWidth") == 320, path


def test_a_screen_reader_has_tables_on_a_phone_too(browser: Browser, address: str) -> None:
    """Though rows are drawn as cards there."""
    browser.shape(390, 800, phone=True)
    browser.open(f"{address}compactions")
    assert browser.ask("getComputedStyle(document.querySelector('td')).display") == "grid"
    found = browser.roles()
    assert {"banner", "navigation", "main", "contentinfo", "table", "row", "cell", "columnheader"} <= {
        role for role, _ in found
    }
    assert ("table", "Compactions that run") in found
    assert ("progressbar", "Progress of keep-0-run") in found
    assert ("searchbox", "Table or name") in found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_all_text_can_be_read(browser: Browser, address: str, path: str, dark: bool) -> None:
    """With the contrast of WCAG's level AA."""
    browser.shape(1200, 900, dark=dark)
    browser.open(f"{address}{path}")
    assert browser.ask(CONTRAST) == []


def test_hostile_names_do_nothing(browser: Browser) -> None:
    """The browser builds no element of them, runs nothing, and finds nothing that the page's own policy forbids."""
    browser.messages.clear()
    browser.shape(1200, 900)
    with served(hostile()) as at:
        browser.open(f"{at}tables")
        inside = browser.ask("[...document.querySelectorAll('main a')].map(one => one.href)")
        for address in (at, f"{at}tables", f"{at}compactions", f"{at}cleanups", *inside):
            browser.open(address)
            assert browser.ask("document.querySelectorAll('img, script, iframe').length") == 0
            assert browser.ask("document.querySelector('main') !== null")
    assert browser.messages == []


def test_the_style_is_applied(browser: Browser, address: str) -> None:
    """The policy allows it: its hash is right as a browser sees it."""
    browser.messages.clear()
    browser.shape(1200, 900)
    browser.open(address)
    assert browser.ask("getComputedStyle(document.querySelector('.skip')).position") == "absolute"
    assert browser.messages == []


def test_a_standby_loads_itself_again(browser: Browser) -> None:
    """Until the next connection reaches the leader."""
    shown: list[Seen | Unseen] = [Unseen(standby=True, leader="operator-1")]
    server = serve_page(0, Site(lambda: shown[0], clock=lambda: NOW))
    try:
        browser.open(f"http://127.0.0.1:{server.server_port}/ui/")
        assert browser.ask("document.querySelector('h1').textContent") == "Not the leader"
        shown[0] = SHOWN
        browser.loaded()
        assert browser.ask("document.querySelector('h1').textContent") == "Fleet"
    finally:
        server.shutdown()
        server.server_close()


@dataclass(frozen=True)
class Picture:
    """A picture of a page, with its size in pixels."""

    name: str
    path: str
    width: int
    height: int
    dark: bool = False


PICTURES = (
    Picture("overview", "", 1200, 820),
    Picture("table", "tables/main/sales.orders", 1200, 640, dark=True),
    Picture("phone", "cleanups", 390, 760),
)


@pytest.mark.parametrize("shown", PICTURES, ids=lambda one: one.name)
def test_pictures(browser: Browser, address: str, tmp_path: Path, shown: Picture) -> None:
    """Those of docs/web-page.md are small."""
    browser.shape(shown.width, shown.height, phone=shown.width < 800, dark=shown.dark)
    browser.open(f"{address}{shown.path}")
    folder = Path(os.environ.get("PICTURES") or tmp_path)
    folder.mkdir(exist_ok=True, parents=True)
    file = folder / f"web-page-{shown.name}.png"
    browser.picture(file)
    assert 1000 < file.stat().st_size <= LARGEST_PICTURE
