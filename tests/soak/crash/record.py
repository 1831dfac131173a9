"""What crash tests remember from one invocation to the next: the steps and ideal ends of scenarios, and runs done.

All of it belongs to one state of the product's code, one generation of Hive and one storage: other code starts from
nothing.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from compaction_operator.api.model import Model
from tests.soak.crash.plan import Plan, Step
from tests.soak.crash.verify import Ideal

ROOT = Path(__file__).parents[3]
CODE = ("operator/compaction_operator", "tests/soak/crash", "sandbox/plane")


class Recording(Model):
    """A scenario's run in which nothing broke."""

    steps: tuple[Step, ...]
    ideal: Ideal


class Result(Model):
    """One run that is done. `reached` is False where a fault's step did not come: timing decides some of them."""

    seed: int
    plan: Plan
    passed: bool
    reached: bool
    attempts: int
    seconds: float
    problems: tuple[str, ...] = ()


class Record:
    """Two files in a folder, for one generation and storage and the code as it is now."""

    def __init__(self, folder: Path, *, hive: str, storage: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{hive}-{storage}-{code_hash()}"
        self._scenarios = folder / f"{name}-scenarios.json"
        self._results = folder / f"{name}.jsonl"
        self.failed = folder / f"{name}-failed"

    def recordings(self) -> dict[str, Recording]:
        """Return what is known of the scenarios."""
        if not self._scenarios.exists():
            return {}
        found = json.loads(self._scenarios.read_text())
        return {name: Recording.model_validate(recording) for name, recording in found.items()}

    def keep_recordings(self, recordings: Mapping[str, Recording]) -> None:
        """Replace what is known of the scenarios."""
        text = json.dumps({name: recording.to_json() for name, recording in recordings.items()})
        self._scenarios.write_text(text)

    def results(self) -> dict[int, Result]:
        """Return the runs that are done, by seed; of one that was repeated the last."""
        lines = self._results.read_text().splitlines() if self._results.exists() else []
        done = [Result.model_validate_json(line) for line in lines if line.endswith("}")]
        return {result.seed: result for result in done}

    def add(self, result: Result) -> None:
        """Add a run."""
        with self._results.open("a") as file:
            file.write(result.model_dump_json(by_alias=True) + "\n")


def code_hash() -> str:
    """Return a short hash of the product and of these tests."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:10]
