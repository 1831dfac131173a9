"""Tables whose files differ in row type: a column that had another name when some of the files were written."""

from copy import deepcopy
from pathlib import Path

from sandbox.harness.orctail import rewrite_tail

from compaction_operator.orc.file import read_tail
from compaction_operator.orc.spec.schema import ROW_ID

FORMER = "former"
"""The former name of a column."""


def give_former_name(*directories: Path, column: int = 1) -> None:
    """Let the files of these directories have a column by its former name; `column` is its position in the row."""
    files = [file for directory in directories for file in directory.glob("bucket_*")]
    assert files
    for file in files:
        tail = read_tail(str(file))
        types = deepcopy(list(tail.types))  # equal trees are one object
        types[ROW_ID].field_names[column] = FORMER
        rewrite_tail(str(file), types=types, user_metadata=tail.user_metadata, calendar=0)
