"""Derives an output file's layout from its inputs: columns, codec, calendar, Bloom filters."""

from collections.abc import Iterable, Sequence
from typing import Any

from compaction_operator.orc.encoding import DEFAULT_BLOCK_SIZE, LARGEST_FRAME, bloom_columns, fpp_of
from compaction_operator.orc.file import StripeLayout, stripe_footer
from compaction_operator.orc.merge.events import Check, EventKind, InputFile, MergeTask, checked, unchecked
from compaction_operator.orc.merge.output import STRIPE_BYTES
from compaction_operator.orc.merge.source import Source, open_source, reading
from compaction_operator.orc.spec import Compression, OrcError, RowTypeError, parse_type, schema

_BLOCK_SIZES = [1 << power for power in range(12, 18)]
"""The sizes of frames below the default, in bytes: 4 to 128 kB."""


def common_layout(sources: Sequence[Source], task: MergeTask, *, check: Check = unchecked) -> StripeLayout:
    """Return the layout of a task's output.

    The columns come from `task.row_type`, or else from the newest input whose columns can hold those of all others.
    The codec comes from the newest compressed input (Hive's minor compaction writes uncompressed files). Raises
    OrcError for an invalid row type, for inputs whose dates use different calendars, and if there is no input file.
    Each input may be read for Bloom filters: raises what `check` raises before.
    """
    models = sources or [open_source(InputFile(path)) for path in task.schema_from]
    if not models:
        raise OrcError(task.output, "there is no input file to take the columns from")
    types = _types(models, task)
    if task.kind is EventKind.INSERT and schema.has_dates(types):
        _check_calendars(models)
    compressed = [model for model in models if model.tail.compression != Compression.NONE]
    newest = (compressed or models)[-1].tail
    return StripeLayout(
        types=types,
        compression=newest.compression,
        block_size=min(LARGEST_FRAME, max(_usual_block_size(types), *(model.tail.block_size for model in models))),
        calendar=models[0].tail.footer.calendar,
        bloom_filters=_bloom_filters(models, types, check) if task.kind is EventKind.INSERT else {},
    )


def _usual_block_size(types: Sequence[Any]) -> int:
    """Return the plain size of a compression frame as Java's writer chooses it (WriterImpl.getEstimatedBufferSize).

    The more columns, the smaller: Java's reader allocates a frame for each stream of each stripe.
    """
    share = STRIPE_BYTES // (20 * len(types))
    return next((size for size in _BLOCK_SIZES if size >= share), DEFAULT_BLOCK_SIZE)


def _types(models: Sequence[Source], task: MergeTask) -> Sequence[Any]:
    if task.row_type is None:
        return _newest_of_all(models) if task.kind is EventKind.INSERT else models[-1].acid_types
    return acid_types(task.row_type, task.output)


def acid_types(row_type: str, path: str) -> Sequence[Any]:
    """Return the type tree of ACID events with that row type; raise OrcError, naming the path, if it is invalid."""
    try:
        # files with equal types share the tree: comparisons with theirs end at once
        return schema.type_tree(schema.acid_tree(parse_type(row_type))).types
    except ValueError as error:
        raise OrcError(path, str(error)) from error


def _newest_of_all(models: Sequence[Source]) -> Sequence[Any]:
    """Return the columns of the newest file that can hold those of all others, or else those of the newest file.

    NB: a delta may have older columns than a base that was compacted later.
    """
    for candidate in reversed(models):
        try:
            for model in models:
                model.columns(candidate.acid_types)
        except RowTypeError:
            continue
        return candidate.acid_types
    return models[-1].acid_types


def _check_calendars(sources: Iterable[Source]) -> None:
    first, *others = sources
    for other in others:
        if other.is_proleptic != first.is_proleptic:
            raise OrcError(other.path, f"its dates use another calendar than those of {first.path}")


def _bloom_filters(models: Sequence[Source], types: Sequence[Any], check: Check) -> dict[int, float]:
    """Return the false positive probability of each column with Bloom filters in the newest input that has any."""
    for model in checked(reversed(models), check):
        if model.tail.footer.stripes and (found := _bloom_filters_of(model)):
            targets = {source.column: source.target for source in model.columns(types)}
            return {targets[column]: fpp for column, fpp in found.items() if column in targets}
    return {}


def _bloom_filters_of(model: Source) -> dict[int, float]:
    """Return the false positive probabilities of the first stripe's filters, by column id in that file."""
    entries = model.tail.footer.row_index_stride
    columns = bloom_columns(stripe_footer(model.tail, 0)) if entries else ()
    if not columns:
        return {}
    with model.stripes()[0].open() as stripe, reading(model.path):
        filters = {column: stripe.reader.bloom_filters(column) for column in columns}
        return {column: fpp_of(found[0], expected_entries=entries) for column, found in filters.items() if found}
