"""Any table and any rows that may be written to it: the schema settles, and no value is lost."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.format.avro_schema import arrow_schema, avro_schema_json
from lentic.records.align import align
from lentic.write.evolve import evolve, is_changed
from lentic.write.fit import conform

Values = st.SearchStrategy[Any]

_INTEGERS = {
    kind: st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
}
_MOMENTS = st.integers(0, 2**32).map(
    lambda second: dt.datetime(1970, 1, 1) + dt.timedelta(0, second)
)
_FLOATS_32 = st.floats(allow_nan=False, width=32)
_FLOATS_64 = st.floats(allow_nan=False)
_TEXT = st.text("aä\n'", max_size=3)


def _decimals(precision: int) -> Values:
    return st.integers(1 - 10**precision, 10**precision - 1).map(lambda n: Decimal(n).scaleb(-2))


_PLAIN: dict[pa.DataType, Values] = {
    **_INTEGERS,
    pa.float32(): _FLOATS_32,
    pa.float64(): _FLOATS_64,
    pa.bool_(): st.booleans(),
    pa.string(): _TEXT,
    pa.large_string(): _TEXT,
    pa.dictionary(pa.int32(), pa.string()): _TEXT,
    pa.binary(): st.binary(max_size=3),
    pa.large_binary(): st.binary(max_size=3),
    pa.date32(): _MOMENTS.map(dt.datetime.date),
    pa.timestamp("ms"): _MOMENTS,
    pa.timestamp("us"): _MOMENTS,
    pa.decimal128(5, 2): _decimals(5),
    pa.decimal128(9, 2): _decimals(9),
    pa.decimal128(20, 2): _decimals(20),
}
# A type of the table, and the types in which rows may have such a column.
_MATCHES: dict[pa.DataType, list[pa.DataType]] = {
    pa.int32(): [*_INTEGERS, pa.float64()],
    pa.int64(): [*_INTEGERS],
    pa.float32(): [pa.float32()],
    pa.float64(): [pa.float64(), pa.float32(), pa.int32(), pa.int8()],
    pa.bool_(): [pa.bool_()],
    pa.string(): [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    pa.binary(): [pa.binary(), pa.large_binary()],
    pa.date32(): [pa.date32()],
    pa.timestamp("us"): [pa.timestamp("us"), pa.timestamp("ms")],
    pa.decimal128(9, 2): [pa.decimal128(digits, 2) for digits in (5, 9, 20)],
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A column's type in the table and in the rows, with values of both."""

    table: pa.DataType
    given: pa.DataType
    old: Values
    new: Values


@st.composite
def _leaves(draw: st.DrawFn) -> Pair:
    table = draw(st.sampled_from(list(_MATCHES)))
    given_as = draw(st.sampled_from(_MATCHES[table]))
    return Pair(table, given_as, _PLAIN[table], _PLAIN[given_as])


def _lists(inner: Pair) -> Pair:
    return Pair(
        pa.list_(pa.field("element", inner.table)),
        pa.list_(inner.given),
        st.lists(st.none() | inner.old, max_size=2),
        st.lists(st.none() | inner.new, max_size=2),
    )


def _maps(inner: Pair) -> Pair:
    def entries(values: Values) -> Values:
        return st.dictionaries(_TEXT, st.none() | values, max_size=2).map(lambda d: [*d.items()])

    return Pair(
        pa.map_(pa.string(), pa.field("value", inner.table)),
        pa.map_(pa.string(), inner.given),
        entries(inner.old),
        entries(inner.new),
    )


@st.composite
def _structs(draw: st.DrawFn, inner: st.SearchStrategy[Pair]) -> Pair:
    """Fields `a`, `b`, ... that both have, or only the table, or only the rows."""
    table, given_as, old, new = [], [], {}, {}
    for number in range(draw(st.integers(1, 4))):
        pair, name = draw(inner), "abcd"[number]
        where = "both" if number == 0 else draw(st.sampled_from(["both", "table", "rows"]))
        never_null = where == "both" and draw(st.booleans())
        nulls: Values = st.nothing() if never_null else st.none()
        if where != "rows":
            table.append(pa.field(name, pair.table, nullable=not never_null))
            old[name] = nulls | pair.old
        if where != "table":
            given_as.append(pa.field(name, pair.given))
            new[name] = nulls | pair.new
    shuffled = draw(st.permutations(given_as))
    return Pair(
        pa.struct(table),
        pa.struct(shuffled),
        st.fixed_dictionaries(old),
        st.fixed_dictionaries(new),
    )


_PAIRS = st.recursive(
    _leaves(),
    lambda inner: st.one_of(inner.map(_lists), inner.map(_maps), _structs(inner)),
    max_leaves=6,
)
# Not within another type, where a float stays a float.
_FLOATS = st.just(Pair(pa.float32(), pa.float64(), _FLOATS_32, _FLOATS_64))
_TABLES = _structs(st.one_of(_PAIRS, _FLOATS))


def _batch(kind: pa.StructType, rows: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array(rows, kind))


def _is_kept(value: Any, got: Any) -> bool:
    """Whether `got` is `value`, perhaps in a wider type and with nulls where it had no field."""
    if isinstance(value, dict):
        same = all(_is_kept(value[name], got[name]) for name in value)
        return same and all(got[name] is None for name in got if name not in value)
    if isinstance(value, list | tuple):
        return len(value) == len(got) and all(map(_is_kept, value, got))
    if isinstance(value, float) and value != got:
        return bool(np.float32(got) == value)  # a float that is read by its text
    return bool(value == got)


def _ensure_nulls_default(avro: Any) -> None:
    """Every field that may be null defaults to null, so that it may be absent from a file."""
    if isinstance(avro, list):
        for branch in avro:
            _ensure_nulls_default(branch)
    elif isinstance(avro, dict):
        for field in avro.get("fields", ()):
            assert not isinstance(field["type"], list) or field["default"] is None, field
            _ensure_nulls_default(field["type"])
        _ensure_nulls_default(avro.get("items", avro.get("values")))


@given(_TABLES)
def test_the_schema_settles_after_one_write(pair: Pair) -> None:
    table, rows = pa.schema(list(pair.table)), pa.schema(list(pair.given))
    evolved = evolve(table, rows, required=())
    assert evolve(table, table, required=()) is table
    assert evolve(evolved, rows, required=()) is evolved
    assert evolve(evolved, table, required=()) is evolved
    assert evolve(evolved, evolved, required=(), allow=False) is evolved
    assert evolved.names[: len(table.names)] == table.names
    assert set(evolved.names) == {*table.names, *rows.names}
    assert is_changed(table, evolved) == (evolved is not table)


@given(_TABLES)
def test_the_schema_is_the_one_that_avro_stores(pair: Pair) -> None:
    evolved = evolve(pa.schema(list(pair.table)), pa.schema(list(pair.given)), required=())
    text = avro_schema_json(evolved, "t", meta_fields=False)
    assert arrow_schema(text, "a commit") == evolved
    fastavro.parse_schema(json.loads(text))
    _ensure_nulls_default(json.loads(text))


@settings(max_examples=300)
@given(_TABLES, st.data())
def test_no_value_is_lost_on_the_way_into_the_table(pair: Pair, data: st.DataObject) -> None:
    evolved = evolve(pa.schema(list(pair.table)), pa.schema(list(pair.given)), required=())
    values = data.draw(st.lists(pair.new, max_size=4))
    rows = _batch(pair.given, values)
    start = data.draw(st.integers(0, len(values)))
    for batch, expected in ((rows, values), (rows.slice(start), values[start:])):
        conformed = conform(batch, evolved)
        conformed.validate(full=True)
        assert conformed.schema == evolved
        assert _is_kept(expected, conformed.to_pylist())


@settings(max_examples=300)
@given(_TABLES, st.data())
def test_no_value_of_an_older_file_is_lost(pair: Pair, data: st.DataObject) -> None:
    evolved = evolve(pa.schema(list(pair.table)), pa.schema(list(pair.given)), required=())
    values = data.draw(st.lists(pair.old, max_size=4))
    older = _batch(pair.table, values)
    for read in (align(older, evolved, "an older file"), conform(older, evolved)):
        assert read.schema == evolved
        assert _is_kept(values, read.to_pylist())
