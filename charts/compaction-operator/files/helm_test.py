"""What `helm test` runs in a pod: does the controller answer, and can the metastores be reached from here?"""

import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import yaml

TIMEOUT = 10


def metrics(url: str) -> str | None:
    """Return why the controller's metrics cannot be read, None if they can."""
    try:
        with urlopen(url, timeout=TIMEOUT) as answer:  # noqa: S310 - the chart's own URL
            return None if b"compaction_operator_" in answer.read() else f"{url} has no metrics of the operator"
    except OSError as error:
        return f"{url}: {error}"


def reach(uris: list[str]) -> str | None:
    """Return why none of a metastore's processes can be reached, None if one can. It does not log in."""
    problems = []
    for uri in uris:
        place = urlsplit(uri)
        try:
            socket.create_connection((place.hostname or "", place.port or 0), timeout=TIMEOUT).close()
        except OSError as error:
            problems.append(f"{uri}: {error}")
        else:
            return None
    return "; ".join(problems)


def main() -> None:
    """Print a line for each thing that was looked at. Exits with code 1 if one of them failed."""
    url, config = os.environ.get("METRICS"), Path(os.environ["CONFIG"])
    warehouses = yaml.safe_load(config.read_text(encoding="utf-8"))["warehouses"]
    found = {"controller": metrics(url)} if url else {}
    found |= {f"metastore of {one['name']}": reach(one["metastore"]["uris"]) for one in warehouses}
    for what, problem in found.items():
        sys.stdout.write(f"{what}: {problem or 'ok'}\n")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
