"""What the receipts must say at the end of every run: each deleted directory once, and nothing altered or missing."""

from collections import Counter
from collections.abc import Iterator

from sandbox.harness.places import Place

from compaction_operator.controller.kube.resources import Compaction
from compaction_operator.receipts import Kind, Receipt, verify
from tests.soak.crash.table import Table
from tests.soak.crash.verify import Before, directory_of


def unrecorded(table: Table, before: Before, compaction: Compaction, folder: Place) -> Iterator[str]:
    """Yield what is wrong with the receipts of a run, one line each."""
    lines = [(int(number), content) for number, content in _stored(folder)]
    yield from verify(lines).findings
    receipts = [Receipt.parse(line) for _, line in lines]
    ends = [one for one in receipts if one.kind is Kind.COMPACTION and one.compaction_uid == compaction.meta.uid]
    if len(ends) != 1:
        yield f"the compaction has {len(ends)} receipts"
    parts = (part for one in receipts if one.table == table.full_name for part in one.parts)
    written = Counter((part.partition, name.name) for part in parts for name in part.deleted)
    after = table.files()
    gone = {directory_of(path, table) for path in before.files if path not in after}
    for directory in sorted(gone | written.keys()):
        if written[directory] != 1:
            yield f"{'/'.join(filter(None, directory))} was deleted and is in {written[directory]} receipts"
    for notice in _names(folder / "pending"):
        yield f"a notice is left: {notice}"


def _stored(folder: Place) -> Iterator[tuple[str, bytes]]:
    for inner in _names(folder):
        if inner.isdigit():
            for name in _names(folder / inner):
                number, dot, rest = name.partition(".")
                if (dot, rest) == (".", "json"):  # NB: HDFS keeps what a killed process had not renamed yet
                    yield number, (folder / inner / name).read_bytes()


def _names(folder: Place) -> list[str]:
    return sorted(one.name for one in folder.iterdir()) if folder.exists() else []
