"""Whether the compiled kernels and their references in Python agree on a case: on what is read, refused and written."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from compaction_operator.orc import OrcError, kernels
from compaction_operator.orc.file import StripeReader, read_tail
from tests.soak.fuzz.cases import Case
from tests.soak.fuzz.examine import COLUMNS, STRIPES, End, Verdict, examine


@dataclass(frozen=True)
class _Found:
    """The verdict on a case, what each column of its file is read as, and the bytes of the outputs."""

    verdict: Verdict
    columns: list[str]
    outputs: list[bytes]


def examine_both(case: Case, folder: Path) -> Verdict:
    """Return how a case ends, which is a finding if it ends differently without the kernels."""
    assert kernels.compiled, "the kernels are not built: make venv"
    compiled = _examine(case, folder)
    with patch.object(kernels, "compiled", None):
        reference = _examine(case, folder)
    if compiled == reference:
        return compiled.verdict
    differing = [pair for pair in zip(compiled.columns, reference.columns, strict=False) if pair[0] != pair[1]]
    texts = (compiled.verdict, reference.verdict, differing[:3])
    return Verdict(End.FINDING, f"{case}\nwith the kernels and without: {texts}")


def _examine(case: Case, folder: Path) -> _Found:
    for output in folder.glob("output*"):
        output.unlink()
    verdict = examine(case, folder)
    outputs = [output.read_bytes() for output in sorted(folder.glob("output*"))]
    return _Found(verdict, _columns(folder / "bucket_00000"), outputs)


def _columns(path: Path) -> list[str]:
    """What each column of the file is read as: a hash of its values, or the error."""
    found = []
    with path.open("rb") as file:
        try:
            tail = read_tail(str(path))
            for index in range(min(STRIPES, len(tail.footer.stripes))):
                reader = StripeReader(file, tail, index)
                found += [_column(reader, column) for column in range(min(COLUMNS, len(tail.types)))]
        except OrcError as error:
            found.append(str(error))
    return found


def _column(reader: StripeReader, column: int) -> str:
    try:
        array = reader.column(column)
    except OrcError as error:
        return str(error)
    try:
        values = pa.record_batch([array], ["column"]).serialize()
    except pa.ArrowInvalid:  # nested too deep for Arrow's own format
        values = repr(array.to_pylist()).encode()
    return sha256(values).hexdigest()
