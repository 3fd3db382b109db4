"""Arrow tables in the form in which the golden answers are written, and how the two are compared.

A value is JSON: floats by their shortest text (of a float32 its exact value), decimals with all
their digits, bytes in hex, times in ISO with microseconds, in UTC if they have a zone. Null is null
and not an absent field. Types are compared apart from values, by what they mean: string is
large_string, and names of list children do not count. Whether nulls are allowed does count, but on
Spark, which reads every Parquet column as one that may be null.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types

Row = Mapping[str, Any]

_SHOWN = 3
_PLAIN = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_field(spark: Mapping[str, Any]) -> pa.Field:
    """The Arrow field of a Spark field as its JSON describes it."""
    return pa.field(spark["name"], arrow_type(spark["type"]), spark["nullable"])


def arrow_type(spark: Any) -> pa.DataType:
    """The Arrow type of a Spark type as its JSON describes it."""
    if isinstance(spark, str):
        decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", spark)
        return pa.decimal128(*map(int, decimal.groups())) if decimal else _PLAIN[spark]
    if spark["type"] == "array":
        element = arrow_type(spark["elementType"])
        return pa.list_(pa.field("element", element, spark["containsNull"]))
    if spark["type"] == "map":
        value = arrow_type(spark["valueType"])
        item = pa.field("value", value, spark["valueContainsNull"])
        return pa.map_(arrow_type(spark["keyType"]), item)
    assert spark["type"] == "struct", spark
    return pa.struct([arrow_field(field) for field in spark["fields"]])


def meaning(field: pa.Field, name: str, *, nulls: bool) -> str:
    """A field in words, without what is only physical; equal words, equal meaning."""
    kind = field.type
    if types.is_large_string(kind) or types.is_string_view(kind):
        said = "string"
    elif types.is_large_binary(kind) or types.is_binary_view(kind):
        said = "binary"
    elif types.is_timestamp(kind) and kind.tz is not None:
        said = f"timestamp[{kind.unit}, with a zone]"
    elif types.is_map(kind):
        value = meaning(kind.item_field, "value", nulls=nulls)
        said = f"map<{meaning(kind.key_field, 'key', nulls=nulls)}, {value}>"
    elif types.is_list(kind) or types.is_large_list(kind):
        said = f"list<{meaning(kind.value_field, 'element', nulls=nulls)}>"
    elif types.is_struct(kind):
        said = f"struct<{', '.join(meaning(part, part.name, nulls=nulls) for part in kind)}>"
    else:
        said = str(kind)
    return f"{name}: {said}" + (" not null" if nulls and not field.nullable else "")


def ensure_same_columns(
    ours: pa.Schema, expected: Sequence[Mapping[str, Any]], *, nulls: bool
) -> None:
    """Names, order and types of all columns; with `nulls` also which of them may be null."""
    found = [meaning(field, field.name, nulls=nulls) for field in ours]
    wanted = [meaning(arrow_field(field), field["name"], nulls=nulls) for field in expected]
    assert found == wanted


def canonical_rows(table: pa.Table, columns: Iterable[str] | None = None) -> list[Row]:
    """The rows as JSON values, only `columns` of them if given."""
    chosen = table if columns is None else table.select(list(columns))
    values = [
        [canonical(value, field.type) for value in column.to_pylist()]
        for field, column in zip(chosen.schema, chosen.columns, strict=True)
    ]
    return [dict(zip(chosen.column_names, row, strict=True)) for row in zip(*values, strict=True)]


def canonical(value: Any, kind: pa.DataType) -> Any:
    """One value as JSON."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return repr(value)
    if types.is_decimal(kind):
        return format(value, "f")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime):
        return _in_utc(value).isoformat(timespec="microseconds")
    if isinstance(value, dt.date):
        return value.isoformat()
    if types.is_map(kind):
        return {key: canonical(item, kind.item_type) for key, item in value}
    if types.is_struct(kind):
        return {field.name: canonical(value[field.name], field.type) for field in kind}
    assert isinstance(value, list), f"{kind}: {value!r}"
    return [canonical(item, kind.value_type) for item in value]


def ensure_same_rows(ours: Iterable[Row], expected: Iterable[Row]) -> None:
    """The same rows, each as often, in any order; a failure shows the first differences."""
    found, wanted = (Counter(map(_text, rows)) for rows in (ours, expected))
    if found == wanted:
        return
    extra, missing = ([json.loads(t) for t in c] for c in (found - wanted, wanted - found))
    lines = [
        f"{found.total()} rows where Hudi reads {wanted.total()};"
        f" {len(extra)} of ours are not Hudi's, {len(missing)} of Hudi's are not ours"
    ]
    for row in missing[:_SHOWN]:
        twin = next((other for other in extra if _key(other) == _key(row)), None)
        if twin is None:
            lines.append(f"  missing: {_text(row)[:500]}")
            continue
        changed = [name for name in row if twin.get(name, "absent") != row[name]]
        lines += [f"  {_key(row)}: {n} is {twin.get(n)!r}, Hudi: {row[n]!r}" for n in changed]
    known = {_key(row) for row in missing}
    lines += [f"  extra: {_text(r)[:500]}" for r in extra if _key(r) not in known][:_SHOWN]
    raise AssertionError("\n".join(lines))


def _in_utc(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


def _text(row: Row) -> str:
    return json.dumps(row, sort_keys=True)


def _key(row: Row) -> tuple[Any, ...]:
    """What tells rows apart in every golden table."""
    return (row.get("id"), row.get("part"))
