"""Which row groups of a Parquet file a filter needs, told from the footer alone.

Only columns at the top of the schema count, and of those only the ones whose values in the file are
surely the table's values: the same type or a narrower one that widening leaves in order. Where the
footer says nothing, or anything odd, the column is taken to hold anything.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from lentic.query.literals import Kind, kind_of_type, kind_of_value
from lentic.query.predicate import Bounds, columns_of, may_match
from lentic.query.predicate_values import Predicate

_UNITS = ("s", "ms", "us", "ns")


def row_groups_that_may_match(
    metadata: pq.FileMetaData, schema: pa.Schema, p: Predicate
) -> list[int]:
    """The row groups, in order, that could hold a row for which `p` holds.

    `schema` is the table's, for which the predicate was parsed; the file may be older.
    """
    columns = _flat_columns(metadata, columns_of(p))
    types = _ordered_types(metadata, schema)
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        bounds = {name: _bounds(group, index, types.get(name)) for name, index in columns.items()}
        if may_match(p, bounds):
            found.append(number)
    return found


def _flat_columns(metadata: pq.FileMetaData, names: frozenset[str]) -> dict[str, int]:
    """Where in each row group the columns lie that are neither nested nor repeated."""
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    return {
        name: paths.index(name)
        for name in names
        # A dot may be part of a name or lead to the field of a struct; the footer does not tell.
        if paths.count(name) == 1
        and "." not in name
        and metadata.schema.column(paths.index(name)).max_repetition_level == 0
    }


def _ordered_types(metadata: pq.FileMetaData, schema: pa.Schema) -> dict[str, pa.DataType]:
    """The file's type of each column whose statistics hold for the table's column too."""
    try:
        stored = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, ValueError):  # a type that Arrow does not know
        return {}
    names = [name for name in stored.names if stored.names.count(name) == 1]
    return {
        name: stored.field(name).type
        for name in names
        if schema.names.count(name) == 1
        and _keeps_order(stored.field(name).type, schema.field(name).type)
    }


def _keeps_order(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of the first type is an equal value of the second."""
    if pa.types.is_dictionary(wanted):
        return _keeps_order(stored, wanted.value_type)
    if pa.types.is_dictionary(stored):
        return _keeps_order(stored.value_type, wanted)
    kind = kind_of_type(stored)
    if kind is None or kind is not kind_of_type(wanted):
        return False
    match kind:
        case Kind.INTEGER:
            # Old writers ordered unsigned numbers as if they were signed.
            signed = pa.types.is_signed_integer(stored) and pa.types.is_signed_integer(wanted)
            return bool(signed and stored.bit_width <= wanted.bit_width)
        case Kind.FLOATING:
            # A float that became a double is read by its text, which the bounds are not.
            return bool(32 <= stored.bit_width == wanted.bit_width)
        case Kind.DECIMAL:
            digits = stored.precision - stored.scale <= wanted.precision - wanted.scale
            return bool(digits and stored.scale <= wanted.scale)
        case Kind.MOMENT | Kind.CLOCK:
            # Python's times have no nanoseconds.
            is_finer = _UNITS.index(stored.unit) <= _UNITS.index(wanted.unit)
            return is_finer and stored.unit != "ns"
    return True


def _bounds(group: pq.RowGroupMetaData, index: int, stored: pa.DataType | None) -> Bounds:
    """What the statistics of one column say; `stored` is None if its values are not the table's."""
    column = group.column(index)
    rows: int = group.num_rows
    statistics = column.statistics if column.is_stats_set else None
    if statistics is None or column.physical_type == "INT96" or column.num_values != rows:
        return Bounds(rows=rows)
    nulls: int | None = statistics.null_count if statistics.has_null_count else None
    if nulls is not None and not 0 <= nulls <= rows:
        nulls = None
    if stored is None or not statistics.has_min_max:
        return Bounds(nulls=nulls, rows=rows)
    try:
        low, high = statistics.min, statistics.max
    except (pa.ArrowException, ValueError, OverflowError):  # a day or time beyond Python's
        return Bounds(nulls=nulls, rows=rows)
    kind = kind_of_type(stored)
    if kind_of_value(low) is not kind or kind_of_value(high) is not kind or low > high:
        return Bounds(nulls=nulls, rows=rows)
    return Bounds(low, high, nulls, rows)
