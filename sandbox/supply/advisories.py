"""Answer pip-audit's questions from a folder of advisories, such as a clone of PyPA's database, as OSV's server does.

`advisories.py FOLDER COMMAND...`: runs the command, with `--vulnerability-service osv --osv-url URL` at its end, and
exits as it does. https://ossf.github.io/osv-schema/ has the format.
"""

import json
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from packaging.version import Version

from sandbox.supply.compiled import normal

Advisory = Mapping[str, Any]


def affects(advisory: Advisory, name: str, version: str) -> bool:
    """Whether a package's version is affected: it is listed, or in one of the ranges."""
    own = [
        one
        for one in advisory.get("affected", ())
        if one["package"]["ecosystem"] == "PyPI" and normal(one["package"]["name"]) == normal(name)
    ]
    return any(
        version in one.get("versions", ())
        or any(_contains(span["events"], version) for span in one.get("ranges", ()) if span["type"] == "ECOSYSTEM")
        for one in own
    )


def read(folder: Path) -> dict[str, list[Advisory]]:
    """Return the advisories in a folder's YAML and JSON files, by the packages that they name.

    Raises ValueError if there is none: another folder must not pass for one that knows of nothing.
    """
    found = defaultdict[str, list[Advisory]](list)
    for path in sorted(folder.rglob("*")):
        if path.suffix not in {".yaml", ".json"}:
            continue
        advisory = (
            json.loads(path.read_text()) if path.suffix == ".json" else yaml.load(path.read_text(), yaml.CSafeLoader)
        )
        if isinstance(advisory, dict) and "id" in advisory:
            for package in {normal(one["package"]["name"]) for one in advisory.get("affected", ())}:
                found[package].append(advisory)
    if not found:
        raise ValueError(f"ADVISORIES: no advisory in OSV's format is in {folder}")
    return found


def server(known: Mapping[str, Iterable[Advisory]]) -> ThreadingHTTPServer:
    """Return a server that has these advisories; it does not serve yet."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name, version = asked["package"]["name"], asked["version"]
            found = [one for one in known.get(normal(name), ()) if affects(one, name, version)]
            answer = json.dumps({"vulns": found} if found else {}, default=str).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def main(folder: str, *command: str) -> int:
    """Run the command while the server answers it; return its exit code."""
    try:
        known = read(Path(folder))
    except ValueError as error:
        sys.exit(str(error))
    with server(known) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{serving.server_port}/v1/query"
        done = subprocess.run([*command, "--vulnerability-service", "osv", "--osv-url", url], check=False)
        serving.shutdown()
    return done.returncode


def _contains(events: Iterable[Mapping[str, Any]], version: str) -> bool:
    """Whether a version is in a range: of the events up to it, the last one says so."""
    inside, own = False, Version(version)
    for kind, limit in sorted((pair for event in events for pair in event.items()), key=lambda pair: Version(pair[1])):
        if kind == "introduced" and Version(limit) <= own:
            inside = True
        if (kind == "fixed" and Version(limit) <= own) or (kind == "last_affected" and Version(limit) < own):
            inside = False
    return inside


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
