"""The one result of the controller's benchmarks: each part has its own key in `bench/out/controller.json`."""

import json
import os
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "out" / "controller.json"


def record(path: Path, part: str, found: dict[str, Any]) -> None:
    """Store what a part found, and how busy the machine was in its last 15 minutes; leave what the others found."""
    path.parent.mkdir(parents=True, exist_ok=True)
    load = round(os.getloadavg()[2], 1)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, part: {**found, "load": load}}, indent=1) + "\n")
