"""The row type of a bucket file, as far as it matters for merging the file with others."""

from compaction_operator.acid.runs import OF_TABLE
from compaction_operator.orc.merge.events import InputFile
from compaction_operator.orc.merge.layout import acid_types
from compaction_operator.orc.merge.source import open_source
from compaction_operator.orc.spec import RowTypeError, schema


def row_type(file: InputFile, table: str | None) -> str:
    """Return OF_TABLE for a file whose rows become the table's without loss, else a text that equal types share.

    `table` is the table's row type in Hive's syntax, or None if it is unknown. Raises OrcError for a file that cannot
    be read, and for an invalid row type.
    """
    source = open_source(file)
    if table is not None:
        try:
            source.columns(acid_types(table, file.path))
        except RowTypeError:
            pass
        else:
            return OF_TABLE
    return schema.signature(source.acid_types, schema.ROW_ID)
