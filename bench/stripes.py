"""Which small stripes to rewrite: `python -m bench.stripes [--commits 200] [--every 10] [--rounds 3]`.

Streams of small commits into one bucket, compacted (minor) after every tenth commit. Each rule that says which stripes
a compaction joins has the same files. Measured are the bytes that are written in all for each byte of the commits, the
part of them that is rewritten, the stripes that readers find, and CPU time: of all compactions with their verification,
and of one read of the last file. The result is `bench/out/stripes.json`, and a table in Markdown; the exit code is 1
when two rules leave different rows.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyarrow import orc

from bench.acid_table import make_delta, snapshot
from compaction_operator.orc import EventKind, InputFile, MergeResult, MergeTask, merge_bucket, verify_output
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.merge import engine, small_stripes

RESULT = Path(__file__).parent / "out" / "stripes.json"
HEAD = ["commits of", "rule", "written", "rewritten", "stripes", "at most", "CPU s", "CPU s of a read"]
READS = 3
"""How often the last file is read; the least CPU time counts, as it does of the rounds."""
WORDS = np.array(["quick", "brown", "fox", "jumps", "over", "lazy", "dog", "while", "seven", "wizards", "brew", "soup"])

Joined = Callable[[Sequence[float]], list[bool]]


@dataclass(frozen=True)
class Stream:
    """Commits of about so many rows: with a `spread` of 1 some are ten times larger than others."""

    name: str
    rows: int
    spread: float

    def commits(self, number: int) -> list[int]:
        """Return the rows of each commit, the same ones every time."""
        factors = np.random.default_rng(1).lognormal(0, self.spread, number)
        return [max(1, round(self.rows * factor)) for factor in factors]


def rows_of(write_id: int, rows: int) -> pa.StructArray:
    """Return the rows of a commit, of the columns of the engine's benchmark."""
    generator = np.random.default_rng(write_id)
    numbers = np.arange(write_id * 10**6, write_id * 10**6 + rows)
    cents = generator.integers(0, 10**7, rows).tolist()
    return pa.StructArray.from_arrays(
        [
            pa.array(numbers),
            pa.array(generator.integers(0, 100_000, rows), pa.int32()),
            pa.array([f"{number:032x}" for number in generator.permutation(numbers)]),
            pa.array([" ".join(words) for words in generator.choice(WORDS, (rows, 10))]),
            pa.array(generator.normal(size=rows)),
            pa.array([Decimal(value).scaleb(-2) for value in cents], pa.decimal128(12, 2)),
            pa.array(generator.integers(1_600_000_000, 1_700_000_000, rows) * 10**9, pa.timestamp("ns")),
        ],
        names=["id", "customer", "code", "text", "weight", "price", "at"],
    )


@dataclass(frozen=True)
class Rule:
    """Which stripes are joined: by the engine's rule and its growth, or by a rule of its own.

    `limit` times what is large enough for the engine is large enough here.
    """

    name: str
    growth: float = small_stripes.GROWTH
    joined: Joined = small_stripes.joined
    limit: float = 1.0

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the engine work by this rule."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(small_stripes, "GROWTH", self.growth))
            stack.enter_context(patch.object(engine, "joined", self.joined))
            for limit in ("COPY_BYTES", "COPY_ROWS"):
                stack.enter_context(patch.object(engine, limit, round(getattr(engine, limit) * self.limit)))
            yield


def runs_of(threshold: int) -> Joined:
    """Return RFC-48's rule to the letter: all runs of at least so many small stripes."""

    def joined(sizes: Sequence[float]) -> list[bool]:
        found = [False] * len(sizes)
        start = 0
        for end in range(len(sizes) + 1):
            if end == len(sizes) or sizes[end] >= 1:
                found[start:end] = [end - start >= threshold] * (end - start)
                start = end + 1
        return found

    return joined


STREAMS = (
    Stream("100 rows", 100, spread=0.2),
    Stream("1,000 rows", 1000, spread=0.2),
    Stream("1,000 rows, uneven", 1000, spread=1.0),
)
RULES = (
    Rule("none is joined", joined=lambda sizes: [False] * len(sizes)),
    Rule("all are joined", joined=lambda sizes: [True] * len(sizes)),
    Rule("runs of 2", joined=runs_of(2)),
    *(Rule(f"growth {growth}", growth=growth) for growth in (2, 3, 4, 8)),
    Rule("growth 4, up to 0.5 MB", limit=0.25),
    Rule("growth 4, up to 8 MB", limit=4.0),
)


@dataclass
class Played:
    """What a rule made of a stream."""

    ingested: int = 0
    copied: int = 0
    rewritten: int = 0
    cpu_s: float = 0.0
    read_cpu_s: float = 0.0
    rows: int = 0
    stripes: list[int] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, float]:
        """What is to be compared."""
        return {
            "written": round((self.ingested + self.copied + self.rewritten) / self.ingested, 2),
            "rewritten": round(self.rewritten / self.ingested, 2),
            "stripes": self.stripes[-1],
            "stripes_mean": round(mean(self.stripes), 1),
            "stripes_most": max(self.stripes),
            "cpu_s": round(self.cpu_s, 2),
            "read_cpu_s": round(self.read_cpu_s, 3),
            "rows": self.rows,
        }


def play(files: Sequence[Path], rule: Rule, folder: Path, *, every: int) -> Played:
    """Compact a stream by a rule, and return what came of it; the files stay as they are."""
    played = Played(ingested=sum(file.stat().st_size for file in files))
    output: Path | None = None
    for number in range(0, len(files), every):
        inputs = [*([output] if output else []), *files[number : number + every]]
        merged = folder / f"merged-{number}"
        with rule.applied():
            _compact(inputs, merged, played)
        if output:
            output.unlink()
        output = merged
    assert output is not None
    played.read_cpu_s, played.rows = min(_read(output) for _ in range(READS))
    output.unlink()
    return played


def _compact(inputs: Sequence[Path], output: Path, played: Played) -> None:
    files = tuple(InputFile(str(path)) for path in inputs)
    task = MergeTask(kind=EventKind.INSERT, bucket=0, inputs=files, write_ids=snapshot(10**6), output=str(output))
    start = time.process_time()
    result: MergeResult = merge_bucket(task)
    verify_output(task, result)
    played.cpu_s += time.process_time() - start
    played.copied += result.bytes_copied
    played.rewritten += result.bytes_out - result.bytes_copied
    played.stripes.append(len(read_tail(str(output)).stripe_rows))


def _read(file: Path) -> tuple[float, int]:
    start = time.process_time()
    rows = orc.ORCFile(str(file)).read().num_rows
    return time.process_time() - start, rows


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when two rules leave different rows."""
    options = _options()
    results = {stream.name: measured(stream, options) for stream in STREAMS}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    text = {"commits": options.commits, "every": options.every, "machine": machine, "streams": results}
    options.out.write_text(json.dumps(text, indent=1) + "\n")
    print(markdown(results))
    same = all(len({figures["rows"] for figures in rules.values()}) == 1 for rules in results.values())
    print(f"bench-stripes: {'ok' if same else 'MISSED: the rules leave different rows'}")
    return 0 if same else 1


def measured(stream: Stream, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Play a stream by each rule in turn, and return their figures."""
    with tempfile.TemporaryDirectory(prefix="bench-stripes-") as name:
        folder = Path(name)
        commits = enumerate(stream.commits(options.commits), start=1)
        files = [make_delta(folder / "table", write_id=one, row=rows_of(one, rows)) for one, rows in commits]
        played = [[play(files, rule, folder, every=options.every) for rule in RULES] for _ in range(options.rounds)]
        least = (min(rounds, key=lambda one: one.cpu_s) for rounds in zip(*played, strict=True))
        return {rule.name: best.figures for rule, best in zip(RULES, least, strict=True)}


def markdown(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the results as a table."""
    columns = ("written", "rewritten", "stripes", "stripes_most", "cpu_s", "read_cpu_s")
    rows = [
        [stream, rule, *(str(figures[column]) for column in columns)]
        for stream, rules in results.items()
        for rule, figures in rules.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [HEAD, ["---"] * len(HEAD), *rows])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Which small stripes a compaction should rewrite.")
    parser.add_argument("--commits", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--every", type=int, default=10, help="commits between two compactions (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each rule is played (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the result goes (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
