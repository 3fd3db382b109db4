"""Avro schemas of tables, from Arrow and back.

A table's schema is an Avro record `hoodie.<table>.<table>_record`; every commit and every log block
carries it as JSON. A nullable column is a union with null that defaults to null. Inner types are
named by the path that leads to them, as Spark does for Hudi: the struct `a.b` is the record `b` in
the namespace of `a`, a decimal is a `fixed` in the namespace of its column; so names are unique.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from lentic.errors import Corrupt, SchemaMismatch, UnsupportedFormat
from lentic.format.record_fields import META_FIELDS

_DEPTH_MAX = 32
_TYPES_MAX = 100_000
_DECIMAL_PRECISION_MAX = 38

_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "int"),
    (pa.types.is_int16, "int"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_date32, {"type": "int", "logicalType": "date"}),
)
_TIMESTAMP_UNITS = {"ms": "millis", "us": "micros"}

_ARROW_OF_PRIMITIVE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_ARROW_OF_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}


def avro_schema_json(schema: pa.Schema, table: str, meta_fields: bool) -> str:
    """The Avro schema of a table with these columns, after the five meta columns if asked for.

    Meta columns already in `schema` are not repeated. A column that Avro cannot name or Hudi cannot
    store raises `SchemaMismatch`.
    """
    record, namespace = f"{_sanitised(table)}_record", f"hoodie.{_sanitised(table)}"
    columns = [column for column in schema if column.name not in META_FIELDS]
    fields = _avro_fields(columns, f"{namespace}.{record}", "", 1)
    if meta_fields:
        fields = [_meta_field(name) for name in META_FIELDS] + fields
    avro = {"type": "record", "name": record, "namespace": namespace, "fields": fields}
    return json.dumps(avro, separators=(",", ":"), ensure_ascii=False)


def _sanitised(name: str) -> str:
    """A legal Avro name: what Hudi makes of a table's name, two underscores per bad character."""
    return re.sub(r"^[^A-Za-z_]|[^A-Za-z0-9_]", "__", name)


def _is_avro_name(name: str) -> bool:
    """Java's rule: letters, digits and underscores of the basic plane, no digit first."""
    is_legal = all(
        (char == "_" or char.isalpha() or char.isdecimal()) and ord(char) <= 0xFFFF for char in name
    )
    return is_legal and name != "" and not name[0].isdecimal()


def _avro_fields(
    columns: Iterable[pa.Field], namespace: str, parent: str, depth: int
) -> list[dict[str, Any]]:
    fields = []
    seen: set[str] = set()
    for column in columns:
        path = f"{parent}{column.name}"
        if not _is_avro_name(column.name):
            raise _mismatch(path, "has a name that is not made of letters, digits and underscores")
        if column.name in seen:
            raise _mismatch(path, "occurs twice")
        seen.add(column.name)
        avro = _avro_type(column.type, column.name, namespace, path, depth)
        plain = {"name": column.name, "type": avro}
        fields.append(_nullable_field(column.name, avro) if column.nullable else plain)
    return fields


def _meta_field(name: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", "string"], "doc": "", "default": None}


def _nullable_field(name: str, avro: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro], "default": None}


def _avro_type(kind: pa.DataType, name: str, namespace: str, path: str, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise _mismatch(path, f"is nested deeper than {_DEPTH_MAX}")
    for is_kind, avro in _PLAIN:
        if is_kind(kind):
            return avro
    if pa.types.is_timestamp(kind) and kind.unit in _TIMESTAMP_UNITS:
        local = "" if kind.tz else "local-"
        logical = f"{local}timestamp-{_TIMESTAMP_UNITS[kind.unit]}"
        return {"type": "long", "logicalType": logical}
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return _avro_decimal(kind, f"{namespace}.{name}")
    if pa.types.is_struct(kind) and kind.num_fields:
        inner = [kind.field(index) for index in range(kind.num_fields)]
        fields = _avro_fields(inner, f"{namespace}.{name}", f"{path}.", depth + 1)
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = _avro_type(kind.value_type, name, namespace, f"{path}[]", depth + 1)
        return {"type": "array", "items": _union(items, kind.value_field.nullable)}
    if pa.types.is_map(kind) and kind.key_type in (pa.string(), pa.large_string()):
        values = _avro_type(kind.item_type, name, namespace, f"{path}{{}}", depth + 1)
        return {"type": "map", "values": _union(values, kind.item_field.nullable)}
    raise _mismatch(path, f"has type {kind}, which the table format does not store")


def _union(avro: Any, nullable: bool) -> Any:
    return ["null", avro] if nullable else avro


def _avro_decimal(kind: Any, namespace: str) -> dict[str, Any]:
    # One bit for the sign, then whole bytes: the narrowest that Parquet and Hudi use as well.
    size = (10**kind.precision - 1).bit_length() // 8 + 1
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": namespace,
        "size": size,
        "logicalType": "decimal",
        "precision": kind.precision,
        "scale": kind.scale,
    }


def _mismatch(path: str, what: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"Column {path} {what}.",
        safe="nothing was written",
        next_step="rename, cast or drop the column",
    )


def arrow_schema(avro_json: str, where: str) -> pa.Schema:
    """The columns an Avro schema describes, exactly: no unit or width is changed.

    `Corrupt` if the text is no Avro record schema, `UnsupportedFormat` for a type without a
    counterpart, such as a union of two types.
    """
    try:
        avro = json.loads(avro_json)
        kind = _Reading(where).arrow(avro, "", "", 0)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Corrupt(f"The Avro schema does not parse: {error!r}.", where=where) from error
    if not pa.types.is_struct(kind):
        raise Corrupt("The Avro schema is no record.", where=where)
    return pa.schema([kind.field(index) for index in range(kind.num_fields)])


class _Reading:
    """One pass over an Avro schema. A type may be used by name once it is complete.

    Types are counted with names spelled out, because a short text can name types of types of types
    until the columns it stands for fill any memory.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._named: dict[str, tuple[pa.DataType, int]] = {}
        self._count = 0

    def _add(self, count: int) -> None:
        self._count += count
        if self._count > _TYPES_MAX:
            raise self._unsupported("(any)", f"is one of more than {_TYPES_MAX}")

    def arrow(self, avro: Any, namespace: str, path: str, depth: int) -> pa.DataType:
        if depth > _DEPTH_MAX:
            raise self._unsupported(path, f"is nested deeper than {_DEPTH_MAX}")
        self._add(1)
        if isinstance(avro, str):
            return self._by_name(avro, namespace, path)
        if isinstance(avro, list):
            return self._field("", avro, namespace, path, depth).type
        kind = avro["type"]
        if kind in ("record", "enum", "fixed"):
            return self._define(avro, namespace, path, depth)
        if kind == "array":
            element = self._field("element", avro["items"], namespace, f"{path}[]", depth + 1)
            return pa.list_(element)
        if kind == "map":
            value = self._field("value", avro["values"], namespace, f"{path}{{}}", depth + 1)
            return pa.map_(pa.string(), value)
        if not isinstance(kind, str):
            return self.arrow(kind, namespace, path, depth + 1)
        if kind == "bytes" and avro.get("logicalType") == "decimal":
            return self._decimal(avro, path)
        logical = _ARROW_OF_LOGICAL.get((kind, avro.get("logicalType")))
        return logical or self._by_name(kind, namespace, path)

    def _field(self, name: str, avro: Any, namespace: str, path: str, depth: int) -> pa.Field:
        """A field of that type; nullable if the type is a union with null."""
        if not isinstance(avro, list):
            return pa.field(name, self.arrow(avro, namespace, path, depth), nullable=False)
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) != 1:
            raise self._unsupported(path, f"is a union of {len(branches)} types")
        inner = self.arrow(branches[0], namespace, path, depth + 1)
        return pa.field(name, inner, nullable=len(branches) < len(avro))

    def _by_name(self, name: str, namespace: str, path: str) -> pa.DataType:
        if name == "null":
            raise self._unsupported(path, "holds nothing but null")
        if name in _ARROW_OF_PRIMITIVE:
            return _ARROW_OF_PRIMITIVE[name]
        known = self._named.get(_joined(namespace, name)) or self._named.get(name)
        if known is None:
            raise Corrupt(
                f"Column {path} has type {name[:60]!r}, which is unknown or contains itself.",
                where=self._where,
            )
        self._add(known[1])
        return known[0]

    def _define(self, avro: Any, namespace: str, path: str, depth: int) -> pa.DataType:
        name = avro["name"]
        full = _joined(avro.get("namespace", namespace), name)
        before = self._count
        if avro["type"] == "enum":
            kind = pa.string()
        elif avro["type"] == "fixed":
            is_decimal = avro.get("logicalType") == "decimal"
            kind = self._decimal(avro, path) if is_decimal else pa.binary(_positive(avro["size"]))
        else:
            kind = self._struct(avro["fields"], full.rpartition(".")[0], path, depth)
        self._named[full] = kind, self._count - before
        return kind

    def _struct(self, fields: Any, namespace: str, path: str, depth: int) -> pa.DataType:
        parent = f"{path}." if path else ""
        return pa.struct(
            [
                self._field(
                    field["name"], field["type"], namespace, f"{parent}{field['name']}", depth + 1
                )
                for field in fields
            ]
        )

    def _decimal(self, avro: Any, path: str) -> pa.DataType:
        precision, scale = _positive(avro["precision"]), avro.get("scale", 0)
        if precision > _DECIMAL_PRECISION_MAX:
            raise self._unsupported(path, f"is a decimal of {precision} digits")
        if not isinstance(scale, int) or not 0 <= scale <= precision:
            raise ValueError(f"scale {scale}")
        return pa.decimal128(precision, scale)

    def _unsupported(self, path: str, what: str) -> UnsupportedFormat:
        return UnsupportedFormat(f"Column {path} {what}.", where=self._where)


def _joined(namespace: str, name: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _positive(value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is not a positive number")
    return value
