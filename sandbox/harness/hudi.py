"""The rows of Hudi tables in the warehouse, as a reader without a JVM sees them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hudi import HudiTableBuilder

from sandbox.harness.tables import HudiTable
from sandbox.harness.toolbox import Toolbox


def rows(toolbox: Toolbox, table: HudiTable) -> list[dict[str, Any]]:
    """Return all rows of a table, without the columns that are Hudi's own."""
    with TemporaryDirectory() as folder:
        for name, data in toolbox.read(table.location).items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        found = pa.Table.from_batches(HudiTableBuilder.from_base_uri(folder).build().read())
    columns = [name for name in found.column_names if not name.startswith("_hoodie_")]
    read: list[dict[str, Any]] = found.select(columns).to_pylist()
    return read
