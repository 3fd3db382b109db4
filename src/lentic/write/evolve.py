"""What writing rows makes of a table's schema. Pure.

The schema only ever grows, in ways that leave files written before readable by this package and by
Apache Hudi 1.2 on Spark alike:

- A column that the table does not have is added at the end and may be null; so is a field of a
  struct, wherever the struct lies. Its type is the one that Avro stores: `int8` is `int32`.
- A type widens where it holds every value it held before: `int32` to `int64`, `int32` to `float64`,
  `float32` to `float64`, a decimal to more digits at the same scale.
- A column that the rows lack stays, and is null in them.

What Avro would promote but not without loss does not widen: an `int64` is no `float64`, an `int32`
no `float32`. Nor does `float32` within a struct, list or map: where a float in a struct became a
double, Hudi's reader turns a null struct of an older file into a struct of nulls.

Key, partition and ordering columns keep their type: the text and order of their values say where a
row lies and which version of it counts, and older files would say otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lentic.errors import SchemaMismatch
from lentic.format.avro_schema import arrow_schema, avro_schema_json
from lentic.format.record_fields import META_FIELDS
from lentic.records.merge import IS_DELETED
from lentic.write.fit import is_list, listed, mismatch, reads_as, type_mismatch

_RESERVED: Final = "_hoodie_"
_DECIMAL_DIGITS_MAX: Final = 38


def evolve(
    table: pa.Schema, given: pa.Schema, *, required: tuple[str, ...], allow: bool = True
) -> pa.Schema:
    """The table's schema after rows of schema `given` are written; `table` itself if it suffices.

    `required` are the key, partition and ordering columns, a field of a struct as `a.b`: rows must
    have them, in the table's type. The five meta columns in `given` are ignored. Rows in any other
    column's narrower type fit, in any order; `conform` brings them to the schema returned.
    `SchemaMismatch` for all else, and for any change of the schema unless `allow`.
    """
    columns = [column for column in given if column.name not in META_FIELDS]
    _ensure_no_reserved(table, columns)
    growth = _Growth(required, allow)
    evolved = pa.schema(growth.fields(list(table), columns, ""))
    if not is_changed(table, evolved):
        return table
    _ensure_can_grow(table)
    # By way of Avro, because that is how the next reader of the table gets to see it.
    return arrow_schema(avro_schema_json(evolved, "table", meta_fields=False), "the new schema")


def is_changed(table: pa.Schema, evolved: pa.Schema) -> bool:
    """Whether the write has to publish a new schema."""
    return not table.equals(evolved)


@dataclass(frozen=True, slots=True)
class _Growth:
    """The rules of one write. A path leads to a column: `a.b`, `a.element`, `a.key`, `a.value`."""

    required: tuple[str, ...]
    allow: bool

    def fields(
        self, table: Sequence[pa.Field], given: Sequence[pa.Field], parent: str
    ) -> list[pa.Field]:
        """The table's fields, perhaps wider, then the new ones."""
        _ensure_distinct({field.name for field in table}, given, parent)
        by_name = {field.name: field for field in given}
        grown = []
        for field in table:
            path = f"{parent}{field.name}"
            found = by_name.pop(field.name, None)
            if found is None:
                self._ensure_may_lack(field, path)
                grown.append(field)
            else:
                kind = self._kind(field.type, found.type, path, nested=parent != "")
                grown.append(field.with_type(kind))
        if by_name and not self.allow:
            paths = [f"{parent}{name}" for name in by_name]
            raise mismatch(f"The table has no column {listed(paths)}.", f"drop {paths[0]}")
        for field in by_name.values():
            grown.append(pa.field(field.name, _plain(field.type, f"{parent}{field.name}")))
        return grown

    def _kind(
        self, table: pa.DataType, given: pa.DataType, path: str, *, nested: bool
    ) -> pa.DataType:
        """The type that holds the table's values and the rows'."""
        if pa.types.is_dictionary(given):
            given = given.value_type
        if path in self.required:
            self._ensure_keeps_type(table, given, path)
            return table
        if pa.types.is_struct(table) and pa.types.is_struct(given):
            return pa.struct(self.fields(list(table), list(given), f"{path}."))
        if is_list(table) and is_list(given):
            inner = f"{path}.element"
            element = self._kind(table.value_type, given.value_type, inner, nested=True)
            made = pa.large_list if pa.types.is_large_list(table) else pa.list_
            return made(table.value_field.with_type(element))
        if pa.types.is_map(table) and pa.types.is_map(given):
            if not reads_as(given.key_type, table.key_type):
                raise type_mismatch(f"{path}.key", given.key_type, table.key_type)
            inner = f"{path}.value"
            value = self._kind(table.item_type, given.item_type, inner, nested=True)
            return pa.map_(table.key_field, table.item_field.with_type(value))
        if reads_as(given, table) or _is_exact_double(given, table):
            return table
        return self._widened(table, given, path, nested=nested)

    def _widened(
        self, table: pa.DataType, given: pa.DataType, path: str, *, nested: bool
    ) -> pa.DataType:
        if not self.allow or not _widens(table, given):
            raise type_mismatch(path, given, table)
        if nested and pa.types.is_float32(table):
            why = ", and engines do not agree on what a float within another type is as a double"
            raise type_mismatch(path, given, table, why)
        return _plain(given, path)

    def _ensure_keeps_type(self, table: pa.DataType, given: pa.DataType, path: str) -> None:
        # A float has another text once it is a double, and its text may place the row.
        if given == table or (reads_as(given, table) and not pa.types.is_floating(table)):
            return
        why = "; a key, partition or ordering column keeps its type, for it places and orders rows"
        raise type_mismatch(path, given, table, why)

    def _ensure_may_lack(self, field: pa.Field, path: str) -> None:
        if any(name == path or name.startswith(f"{path}.") for name in self.required):
            raise mismatch(
                f"The rows lack column {path}, by which the table places or orders rows.",
                f"add {path}",
            )
        if not field.nullable:
            raise mismatch(
                f"The rows lack column {path}, and the table says it is never null.", f"add {path}"
            )


def _widens(table: pa.DataType, given: pa.DataType) -> bool:
    """Whether every value of the table's type is one of the wider type of the rows."""
    if not (pa.types.is_signed_integer(given) or _is_stored_decimal(given)):
        return _is_exact_double(table, given)
    return reads_as(table, given)


def _is_exact_double(narrow: pa.DataType, wide: pa.DataType) -> bool:
    is_small = pa.types.is_signed_integer(narrow) and narrow.bit_width <= 32
    return bool(pa.types.is_float64(wide) and (is_small or pa.types.is_float32(narrow)))


def _is_stored_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and kind.precision <= _DECIMAL_DIGITS_MAX)


def _plain(kind: pa.DataType, path: str) -> pa.DataType:
    """The type of the same values without what is only a way to keep them in memory."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type, path)
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if _is_stored_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        _ensure_distinct(set(), list(kind), f"{path}.")
        return pa.struct([f.with_type(_plain(f.type, f"{path}.{f.name}")) for f in kind])
    if is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type, f"{path}.element")))
    if pa.types.is_map(kind):
        value = _plain(kind.item_type, f"{path}.value")
        return pa.map_(_plain(kind.key_type, f"{path}.key"), kind.item_field.with_type(value))
    return kind


def _ensure_can_grow(table: pa.Schema) -> None:
    """Other engines know types that we read and do not write, in a schema either."""
    try:
        avro_schema_json(table, "table", meta_fields=False)
    except SchemaMismatch as error:
        raise mismatch(
            f"The rows change the table's schema, of which we cannot write a part: {error.what}",
            "give the rows the table's columns and types",
        ) from error


def _ensure_no_reserved(table: pa.Schema, columns: Sequence[pa.Field]) -> None:
    for column in columns:
        if column.name in table.names or not column.name.lower().startswith(_RESERVED):
            continue
        if column.name != IS_DELETED:
            raise mismatch(
                f"Column {column.name} has a name that is kept for the table format.",
                f"rename {column.name}",
            )
        if not pa.types.is_boolean(column.type):
            raise mismatch(
                f"Column {IS_DELETED} is {column.type} in the rows and must be bool, for it says"
                " which records are deleted.",
                f"cast {IS_DELETED} to bool",
            )


def _ensure_distinct(table: Set[str], given: Sequence[pa.Field], parent: str) -> None:
    """Names come once, and no new one differs from another by case alone: Spark sees no case."""
    counts = Counter(field.name for field in given)
    if twice := sorted(f"{parent}{name}" for name, count in counts.items() if count > 1):
        raise mismatch(f"The rows have column {listed(twice)} twice.", "rename one of them")
    known = {name.lower(): name for name in table}
    for name in counts:
        if name in table or (other := known.setdefault(name.lower(), name)) == name:
            continue
        whose = "the table" if other in table else "the rows"
        fix = f"rename {parent}{name} to {other}, or drop it," if other in table else ""
        raise mismatch(
            f"Column {parent}{name} of the rows and {parent}{other} of {whose} differ in case"
            " alone, and Spark takes them for one.",
            fix or f"rename or drop {parent}{name}",
        )
