"""How long the web page takes: `python -m bench.page [--resources 5000] [--tables 10000]`.

Each page is made over and over from the memory of a busy controller. Then pages are made in a thread, as the server of
the controller does, while an event loop of the same process counts by how much its timer is late. The result is
`bench/out/page.json`; the exit code is 1 when a target is missed.
"""

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from tests.support import fleet

from compaction_operator.controller.page import Site

OUT = Path(__file__).parent / "out" / "page.json"
ROUNDS = 15
PAGE_TARGET = 0.2
"""Seconds that a page takes at most, in the median."""
PAGES = (
    ("/ui/", ""),
    ("/ui/tables", ""),
    ("/ui/tables", "page=30"),
    ("/ui/tables", "q=orders"),
    ("/ui/tables/main/sales.customers", ""),
    ("/ui/compactions", ""),
    ("/ui/compactions", "page=20"),
    ("/ui/cleanups", ""),
)
TICK = 0.01


def fetched(site: Site, path: str, query: str) -> int:
    """Return the size of a page."""
    statuses: list[str] = []

    def start(status: str, *_: Any) -> Any:
        statuses.append(status)

    body = b"".join(site({"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": "GET"}, start))
    assert statuses == ["200 OK"], statuses
    return len(body)


def timed(site: Site, path: str, query: str) -> dict[str, Any]:
    """Return the seconds that a page takes, and its size."""
    seconds, size = [], 0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        size = fetched(site, path, query)
        seconds.append(time.perf_counter() - began)
    return {"page": f"{path}{'?' if query else ''}{query}", "median": statistics.median(seconds),
            "slowest": max(seconds), "bytes": size}  # fmt: skip


async def lateness(site: Site) -> list[float]:
    """Return by how many seconds a timer of a loop is late while pages are made one after the other, without a rest."""
    late, task = [], asyncio.create_task(asyncio.to_thread(lambda: [fetched(site, *page) for page in PAGES * 3]))
    while not task.done():
        due = time.perf_counter() + TICK
        await asyncio.sleep(TICK)
        late.append(time.perf_counter() - due)
    await task
    return late


def main() -> int:
    """Measure, write the results and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resources", type=int, default=5000)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100, help="of each tenth table")
    asked = parser.parse_args()
    seen = fleet.busy(asked.resources, tables=asked.tables, partitions=asked.partitions)
    site = Site(lambda: seen, clock=lambda: fleet.NOW, sleep=lambda _: None)
    gc.collect()
    first = timed(site, *PAGES[0])["slowest"]
    found = [timed(site, *page) for page in PAGES]
    late = asyncio.run(lateness(site))
    ordered = sorted(late)
    result = {"resources": asked.resources, "tables": asked.tables, "partitions": asked.partitions, "first": first,
              "pages": found, "loop": {"median": statistics.median(late), "p99": ordered[len(late) * 99 // 100],
                                       "most": ordered[-1]}}  # fmt: skip
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(result, indent=1))
    for one in found:
        print(f"{one['page']:36} {one['median'] * 1000:6.0f} ms, slowest {one['slowest'] * 1000:5.0f} ms, "
              f"{one['bytes'] // 1000:4} kB")  # fmt: skip
    print(f"first page {first * 1000:.0f} ms; the loop's timer is late by {result['loop']['median'] * 1000:.1f} ms, "
          f"p99 {result['loop']['p99'] * 1000:.1f} ms")  # fmt: skip
    missed = [one["page"] for one in found if one["median"] > PAGE_TARGET]
    print(f"bench-page: {'FAIL: ' + ', '.join(missed) if missed else 'PASS'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
