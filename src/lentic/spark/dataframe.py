"""Spark's types and ours. Timestamps with a zone are UTC microseconds on both sides."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as sql

from lentic.errors import SchemaMismatch

_PLAIN: tuple[tuple[type[sql.DataType], pa.DataType], ...] = (
    (sql.BooleanType, pa.bool_()),
    (sql.ByteType, pa.int8()),
    (sql.ShortType, pa.int16()),
    (sql.IntegerType, pa.int32()),
    (sql.LongType, pa.int64()),
    (sql.FloatType, pa.float32()),
    (sql.DoubleType, pa.float64()),
    (sql.StringType, pa.string()),
    (sql.BinaryType, pa.binary()),
    (sql.DateType, pa.date32()),
    (sql.TimestampType, pa.timestamp("us", tz="UTC")),
    (sql.TimestampNTZType, pa.timestamp("us")),
)


def arrow_schema(struct: sql.StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema; `SchemaMismatch` for a type that tables cannot hold."""
    return pa.schema([_arrow_field(field, field.name) for field in struct.fields])


def spark_schema(schema: pa.Schema) -> sql.StructType:
    """The Spark schema of an Arrow schema that came from a table."""
    return sql.StructType([_spark_field(field) for field in schema])


def _arrow_field(field: sql.StructField, path: str) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.dataType, path), nullable=field.nullable)


def _arrow_type(kind: sql.DataType, path: str) -> pa.DataType:
    for spark_kind, arrow_kind in _PLAIN:
        if isinstance(kind, spark_kind):
            return arrow_kind
    match kind:
        case sql.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case sql.ArrayType():
            element = _arrow_type(kind.elementType, f"{path}[]")
            return pa.list_(pa.field("element", element, nullable=kind.containsNull))
        case sql.MapType():
            key = _arrow_type(kind.keyType, f"{path}.key")
            value = _arrow_type(kind.valueType, f"{path}.value")
            return pa.map_(key, pa.field("value", value, nullable=kind.valueContainsNull))
        case sql.StructType():
            return pa.struct([_arrow_field(f, f"{path}.{f.name}") for f in kind.fields])
    raise SchemaMismatch(
        f"Column {path} has type {kind.simpleString()}, which tables cannot hold.",
        safe="nothing was written",
        next_step=f"cast {path} to a string or a struct",
    )


def _spark_field(field: pa.Field) -> sql.StructField:
    return sql.StructField(field.name, _spark_type(field.type), field.nullable)


def _spark_type(kind: pa.DataType) -> sql.DataType:
    for spark_kind, arrow_kind in _PLAIN:
        if kind == arrow_kind:
            return spark_kind()
    if pa.types.is_decimal(kind):
        return sql.DecimalType(kind.precision, kind.scale)
    if pa.types.is_list(kind):
        return sql.ArrayType(_spark_type(kind.value_type), kind.value_field.nullable)
    if pa.types.is_map(kind):
        key, item = _spark_type(kind.key_type), _spark_type(kind.item_type)
        return sql.MapType(key, item, kind.item_field.nullable)
    if pa.types.is_struct(kind):
        return sql.StructType([_spark_field(field) for field in kind])
    raise SchemaMismatch(f"Spark has no type for {kind}.")
