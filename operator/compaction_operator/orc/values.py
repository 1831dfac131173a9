"""Values that Arrow reads from an ORC file right but writes wrong."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

_SECOND = 1_000_000_000
# a day behind 1970: the sign that matters is that of the time in the writer's time zone
_FRACTIONS_FROM = 86_400 * _SECOND


def column_written_wrong(events: pa.Table) -> str | None:
    """Return the name of a column with a value that Hive would not read back, or None.

    Arrow's writer gives fractions of a second before 1970 a negative sign, on which Hive's reader fails.
    """
    for field, column in zip(events.schema, events.columns, strict=True):
        for chunk in column.chunks:
            for name, timestamps in _timestamps(field.name, chunk):
                nanoseconds = timestamps.drop_null().cast(pa.int64()).to_numpy()
                if np.any((nanoseconds < _FRACTIONS_FROM) & (nanoseconds % _SECOND != 0)):
                    return name
    return None


def _timestamps(name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The timestamps at and below a column, with the column names of `schema.column_names`."""
    type_ = array.type
    if pa.types.is_timestamp(type_):
        yield name, array
    elif pa.types.is_struct(type_):
        for index, field in enumerate(type_):
            yield from _timestamps(f"{name}.{field.name}", array.field(index))
    elif pa.types.is_map(type_):
        yield from _timestamps(f"{name}._key", array.keys)
        yield from _timestamps(f"{name}._value", array.items)
    elif pa.types.is_list(type_):
        yield from _timestamps(f"{name}._elem", array.flatten())
