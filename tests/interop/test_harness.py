"""The interop harness itself: the comparison finds every difference, the engines agree on rows.

What the engines are compared on here was written by Apache Hudi, so a difference means that the
harness loses or bends something on the way.
"""

from __future__ import annotations

import math
import random
import shutil
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.compare import RowsDiffer, ensure_same_rows
from tests.interop.readers import ApacheHudi, EngineFailed, hudi_rs_rows

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.struct([("d", pa.float64())]))])
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("seq", pa.int64()),
        ("ts", pa.int64()),
        ("part", pa.string()),
        ("day", pa.date32()),
        ("i32", pa.int32()),
        ("flag", pa.bool_()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("dec", pa.decimal128(12, 3)),
        ("bigdec", pa.decimal128(30, 6)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("bin", pa.binary()),
        ("st", STRUCT),
        ("arr", pa.list_(pa.string())),
        ("arrst", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))),
        ("mp", pa.map_(pa.string(), pa.int64())),
    ]
)


def typed_rows(seqs: range, ts: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows of every column type of the format, a sixth of the values null, some lists empty."""
    rng = random.Random(ts)
    start = datetime(2024, 1, 1, tzinfo=UTC)

    def maybe(value: object) -> Any:
        return None if rng.random() < 0.16 else value

    def row(seq: int) -> dict[str, Any]:
        at = start + timedelta(seconds=rng.randrange(10**7), microseconds=rng.randrange(10**6))
        return {
            "id": f"k{seq:04d}-é",
            "seq": seq,
            "ts": ts,
            "part": f"p{seq % 3}",
            "day": maybe(at.date()),
            "i16": maybe(rng.randrange(-(2**15), 2**15)),
            "i32": maybe(rng.randrange(-(2**31), 2**31)),
            "flag": maybe(rng.random() < 0.5),
            "f32": maybe(rng.choice([0.5, -0.0, math.inf, math.nan])),
            "f64": maybe(rng.choice([rng.random(), -0.0, -math.inf, math.nan])),
            "dec": maybe(Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-3)),
            "bigdec": maybe(Decimal(rng.randrange(-(10**27), 10**27)).scaleb(-6)),
            "at": maybe(at),
            "local": maybe(at.replace(tzinfo=None)),
            "bin": maybe(rng.randbytes(rng.randrange(5))),
            "st": maybe({"a": seq, "b": maybe("s"), "c": maybe({"d": maybe(rng.random())})}),
            "arr": maybe([maybe("e") for _ in range(rng.randrange(4))]),
            "arrst": maybe([{"x": maybe(1), "y": maybe("y")} for _ in range(rng.randrange(3))]),
            "mp": maybe({f"m{i}": maybe(i) for i in range(rng.randrange(4))}),
        }

    return pa.Table.from_pylist([row(seq) for seq in seqs], schema=schema)


def bucket_options(table_type: str) -> dict[str, str]:
    """Write options of a partitioned bucket table without a metadata table."""
    return {
        "hoodie.table.name": "harness",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.metadata.enable": "false",
        "hoodie.upsert.shuffle.parallelism": "2",
    }


def replaced(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, name, pa.array(values, table.schema.field(name).type))


def with_first(table: pa.Table, name: str, value: Any) -> pa.Table:
    return replaced(table, name, [value, *table[name].to_pylist()[1:]])


# --- the comparison ---------------------------------------------------------------------------


def test_equal_rows_in_another_order_and_another_encoding_are_the_same() -> None:
    rows = typed_rows(range(50), 1)
    views = pa.schema(
        [
            ("id", pa.dictionary(pa.int32(), pa.string())),
            *(SCHEMA.field(name) for name in SCHEMA.names[1:12]),
            ("bin", pa.large_binary()),
            ("st", STRUCT),
            ("arr", pa.large_list(pa.field("item", pa.string_view()))),
            SCHEMA.field("arrst"),
            SCHEMA.field("mp"),
        ]
    )
    other = rows.take(list(reversed(range(50)))).cast(views)
    ensure_same_rows(rows, other.select(list(reversed(SCHEMA.names))), ["id"])


def test_map_entries_have_no_order() -> None:
    schema = pa.schema([("id", pa.int32()), ("mp", pa.map_(pa.string(), pa.int64()))])
    left = pa.table({"id": [1, 2], "mp": [[("a", 1), ("b", None)], []]}, schema=schema)
    right = pa.table({"id": [2, 1], "mp": [[], [("b", None), ("a", 1)]]}, schema=schema)
    ensure_same_rows(left, right, ["id"])


def test_empty_tables_are_the_same() -> None:
    ensure_same_rows(SCHEMA.empty_table(), SCHEMA.empty_table(), ["id"])


def test_slices_compare_by_what_they_show() -> None:
    rows = typed_rows(range(60), 1)
    ensure_same_rows(rows.slice(20, 30), typed_rows(range(60), 1).take(list(range(20, 50))), ["id"])


def test_meta_columns_take_part_only_when_asked() -> None:
    rows = typed_rows(range(5), 1)
    one, two = (
        rows.append_column("_hoodie_commit_time", pa.array([time] * 5)) for time in ("1", "2")
    )
    ensure_same_rows(one, two, ["id"])
    with pytest.raises(RowsDiffer, match="_hoodie_commit_time is '1' in a, '2' in b"):
        ensure_same_rows(one, two, ["id"], "a", "b", meta_columns=True)


def test_the_delete_flag_is_a_column_like_any_other() -> None:
    rows = typed_rows(range(2), 1)
    flagged = rows.append_column("_hoodie_is_deleted", pa.array([False, True]))
    with pytest.raises(RowsDiffer, match="'_hoodie_is_deleted' is only in right"):
        ensure_same_rows(rows, flagged, ["id"])


def test_a_missing_row_is_named_with_its_side() -> None:
    rows = typed_rows(range(10), 1)
    with pytest.raises(RowsDiffer, match="1 rows are only in spark: id='k0009-é'"):
        ensure_same_rows(rows, rows.slice(0, 9), ["id"], "spark", "rs")
    with pytest.raises(RowsDiffer, match="1 rows are only in rs: id='k0000-é'"):
        ensure_same_rows(rows.slice(1), rows, ["id"], "spark", "rs")


def test_a_repeated_key_is_named() -> None:
    rows = typed_rows(range(3), 1)
    twice = pa.concat_tables([rows, rows.slice(1, 1)])
    with pytest.raises(RowsDiffer, match="right holds rows with the same key: id='k0001-é'"):
        ensure_same_rows(rows, twice, ["id"])


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("seq", 0, 1),
        ("day", date(2024, 1, 1), date(2024, 1, 2)),
        ("flag", True, False),
        ("f32", 0.0, -0.0),
        ("f64", math.nan, 1.0),
        ("f64", 0.0, -0.0),
        ("dec", Decimal("1.000"), Decimal("1.001")),
        ("bin", b"", None),
        ("bin", b"\x00", b"\x01"),
        ("at", datetime(2024, 1, 1), datetime(2024, 1, 1, microsecond=1)),
        ("st", {"a": 1, "b": "x", "c": None}, {"a": 1, "b": "x", "c": {"d": None}}),
        ("st", None, {"a": None, "b": None, "c": None}),
        ("st", {"a": 1, "b": "x", "c": {"d": 1.0}}, {"a": 1, "b": "x", "c": {"d": 2.0}}),
        ("arr", None, []),
        ("arr", [None], []),
        ("arr", ["a", None], [None, "a"]),
        ("arrst", [None], [{"x": None, "y": None}]),
        ("arrst", [{"x": 1, "y": None}], [{"x": 1, "y": ""}]),
        ("mp", None, []),
        ("mp", [("a", 1)], [("a", None)]),
        ("mp", [("a", 1)], [("b", 1)]),
        ("mp", [("a", 1), ("b", 2)], [("a", 2), ("b", 1)]),
    ],
)
def test_a_single_differing_value_is_found(name: str, one: Any, other: Any) -> None:
    rows = typed_rows(range(20), 1)
    left, right = with_first(rows, name, one), with_first(rows, name, other)
    with pytest.raises(RowsDiffer) as caught:
        ensure_same_rows(left, right, ["id"], "l", "r")
    told = str(caught.value).splitlines()
    assert told[0] == f"l and r differ in 1 of 20 rows: {name} in 1"
    assert told[1].startswith(f"  id='k0000-é': {name} is ")
    assert len(told) == 2
    ensure_same_rows(left, with_first(right, name, one), ["id"])


def test_only_the_first_differing_rows_are_shown() -> None:
    rows = typed_rows(range(20), 1)
    with pytest.raises(RowsDiffer) as caught:
        ensure_same_rows(rows, replaced(rows, "ts", [2] * 20), ["id"])
    assert str(caught.value).startswith("left and right differ in 20 of 20 rows: ts in 20")
    assert len(str(caught.value).splitlines()) == 6


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("i32", pa.int64()),
        ("f32", pa.float64()),
        ("dec", pa.decimal128(13, 3)),
        ("at", pa.timestamp("us")),
        ("at", pa.timestamp("ms", tz="UTC")),
        ("day", pa.timestamp("us")),
        ("bin", pa.string()),
        ("arr", pa.list_(pa.binary())),
        ("mp", pa.map_(pa.string(), pa.int32())),
        ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ],
)
def test_another_type_is_a_difference_even_where_values_agree(name: str, kind: pa.DataType) -> None:
    rows = SCHEMA.empty_table()
    at = SCHEMA.get_field_index(name)
    other = rows.set_column(at, name, pa.array([], kind))
    with pytest.raises(RowsDiffer, match=f"column '{name}' is "):
        ensure_same_rows(rows, other, ["id"])


def test_an_extra_column_is_named_with_its_side() -> None:
    rows = typed_rows(range(3), 1)
    with pytest.raises(RowsDiffer, match="column 'arr' is only in spark"):
        ensure_same_rows(rows, rows.drop_columns(["arr"]), ["id"], "spark", "rs")


# --- the engines ------------------------------------------------------------------------------


@pytest.mark.interop
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_both_engines_see_the_rows_that_were_upserted(
    apache_hudi: ApacheHudi, tmp_path: Path, table_type: str
) -> None:
    path, options = str(tmp_path / "table"), bucket_options(table_type)
    first, second = typed_rows(range(40), 100), typed_rows(range(25, 60), 200)
    apache_hudi.upsert(path, first, options)
    ensure_same_rows(apache_hudi.rows(path), first, ["id"], "Apache Hudi", "upserted")
    apache_hudi.upsert(path, second, options)
    expected = pa.concat_tables([first.slice(0, 25), second])
    hudi, rs = apache_hudi.rows(path), hudi_rs_rows(path)
    ensure_same_rows(hudi, expected, ["id"], "Apache Hudi", "upserted")
    ensure_same_rows(rs, expected, ["id"], "hudi-rs", "upserted")
    ensure_same_rows(hudi, rs, ["_hoodie_record_key"], "Apache Hudi", "hudi-rs", meta_columns=True)


@pytest.mark.interop
def test_a_read_sees_the_table_that_is_there_now(apache_hudi: ApacheHudi, tmp_path: Path) -> None:
    path, options = tmp_path / "table", bucket_options("COPY_ON_WRITE")
    apache_hudi.upsert(str(path), typed_rows(range(5), 1), options)
    assert apache_hudi.rows(str(path)).num_rows == 5
    shutil.rmtree(path)
    plain = pa.schema([*(SCHEMA.field(n) for n in ("id", "ts", "part")), ("i16", pa.int16())])
    apache_hudi.upsert(str(path), typed_rows(range(3), 2, plain), options)
    widened = typed_rows(range(3), 2, plain.set(3, pa.field("i16", pa.int32())))
    ensure_same_rows(apache_hudi.rows(str(path)), widened, ["id"], "Apache Hudi", "upserted")


@pytest.mark.interop
def test_read_options_reach_the_reader(apache_hudi: ApacheHudi, tmp_path: Path) -> None:
    path, options = str(tmp_path / "table"), bucket_options("COPY_ON_WRITE")
    apache_hudi.upsert(path, typed_rows(range(5), 1), options)
    apache_hudi.upsert(path, typed_rows(range(4, 7), 2), options)
    first = min(apache_hudi.rows(path)["_hoodie_commit_time"].to_pylist())
    then = apache_hudi.rows(path, **{"as.of.instant": first})
    ensure_same_rows(then, typed_rows(range(5), 1), ["id"], "Apache Hudi", "upserted")


@pytest.mark.interop
def test_an_engine_that_fails_says_so_and_lives_on(apache_hudi: ApacheHudi, tmp_path: Path) -> None:
    """hudi-rs panics on any table with a timestamp without zone; Apache Hudi reads it."""
    with pytest.raises(EngineFailed, match="Apache Hudi: "):
        apache_hudi.rows(str(tmp_path / "absent"))
    path = str(tmp_path / "table")
    schema = pa.schema(
        [*(SCHEMA.field(n) for n in ("id", "ts", "part")), ("local", pa.timestamp("us"))]
    )
    rows = typed_rows(range(10), 1, schema)
    apache_hudi.upsert(path, rows, bucket_options("MERGE_ON_READ"))
    ensure_same_rows(apache_hudi.rows(path), rows, ["id"], "Apache Hudi", "upserted")
    with pytest.raises(EngineFailed, match="hudi-rs panicked"):
        hudi_rs_rows(path)
    with pytest.raises(EngineFailed, match="hudi-rs: "):
        hudi_rs_rows(str(tmp_path / "absent"))
