"""What users get wrong gets a typed error that says what to do, and nothing is written.

Each case runs with and without Spark. "Nothing written" is taken literally: the table's files are
the same, byte for byte, before and after. All that may stay for a day is the word that nothing can
be added to the refused write, for attempts that might still run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lentic

SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("amount", pa.float64())]
)
GOOD = pa.table(
    [pa.array(["a", "b"]), pa.array([1, 1]), pa.array(["p", "q"]), pa.array([1.5, None])],
    schema=SCHEMA,
)

ENGINES = pytest.mark.parametrize(
    "engine", ["alone", pytest.param("spark", marks=pytest.mark.spark)]
)


@pytest.fixture
def made(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[lentic.Table, Any]:
    """A table with two rows, and what turns an Arrow table into rows for its engine."""
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    table = lentic.create(
        str(tmp_path / "t"),
        SCHEMA,
        key="id",
        partition_by="part",
        ordering="ts",
        buckets=2,
        spark=spark,
    )
    table.upsert(GOOD)
    return table, (lambda rows: rows if spark is None else spark.createDataFrame(rows))


def content(path: str) -> dict[str, bytes]:
    """Every file of the table but the lock, which only remembers who held it last, and finalize
    markers."""
    files = (file for file in Path(path).rglob("*") if file.is_file())
    kept = (file for file in files if not file.name.endswith((".lock", ".finalized.json")))
    return {str(file.relative_to(path)): file.read_bytes() for file in kept}


def column(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    at = SCHEMA.get_field_index(name)
    return GOOD.set_column(at, name, pa.array(values, kind or SCHEMA.field(name).type))


CASES: list[tuple[str, Callable[[], pa.Table], type[lentic.LenticError], str]] = [
    (
        "missing key column",
        lambda: GOOD.drop_columns(["id"]),
        lentic.SchemaMismatch,
        "lack column id",
    ),
    ("null key", lambda: column("id", ["a", None]), lentic.InvalidRecord, "column id is null"),
    (
        "empty key",
        lambda: column("id", ["a", ""]),
        lentic.InvalidRecord,
        "column id is null or empty",
    ),
    (
        "wrong type",
        lambda: column("ts", ["x", "y"], pa.string()),
        lentic.SchemaMismatch,
        "ts is string",
    ),
    (
        "lossy type",
        lambda: column("ts", [1.5, 2.5], pa.float64()),
        lentic.SchemaMismatch,
        "ts is double",
    ),
    (
        "missing partition column",
        lambda: GOOD.drop_columns(["part"]),
        lentic.SchemaMismatch,
        "lack column part",
    ),
    (
        "missing ordering column",
        lambda: GOOD.drop_columns(["ts"]),
        lentic.SchemaMismatch,
        "lack column ts",
    ),
    (
        "reserved column",
        lambda: GOOD.append_column("_hoodie_x", GOOD["ts"]),
        lentic.SchemaMismatch,
        "_hoodie_x",
    ),
    (
        "column in other letters",
        lambda: GOOD.append_column("AMOUNT", GOOD["amount"]),
        lentic.SchemaMismatch,
        "AMOUNT",
    ),
    ("parent folder", lambda: column("part", ["p", ".."]), lentic.InvalidRecord, "'..'"),
    ("path outside", lambda: column("part", ["p", "../../x"]), lentic.InvalidRecord, "../../x"),
    ("absolute path", lambda: column("part", ["p", "/etc"]), lentic.InvalidRecord, "/etc"),
    ("timeline folder", lambda: column("part", ["p", ".hoodie"]), lentic.InvalidRecord, ".hoodie"),
    (
        "inside timeline",
        lambda: column("part", ["p", ".hoodie/timeline"]),
        lentic.InvalidRecord,
        ".hoodie",
    ),
]


@ENGINES
@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_rows_that_cannot_be_stored_are_refused_and_nothing_is_written(
    made: tuple[lentic.Table, Any], case: tuple[str, Callable[[], pa.Table], Any, str]
) -> None:
    table, rows_of = made
    _, make, error, words = case
    before = content(table.path)
    with pytest.raises(error) as caught:
        table.upsert(rows_of(make()))
    assert words in str(caught.value)
    assert caught.value.safe and caught.value.next_step
    assert content(table.path) == before
    rows = lentic.open(table.path).read().sort_by("id")
    assert rows.equals(GOOD)


@ENGINES
def test_rows_may_lack_what_may_be_null_and_bring_what_is_new(
    made: tuple[lentic.Table, Any],
) -> None:
    table, rows_of = made
    table.upsert(rows_of(GOOD.drop_columns(["amount"]).append_column("x", GOOD["ts"])))
    found = lentic.open(table.path).read().sort_by("id")
    assert found.column_names == [*SCHEMA.names, "x"]
    assert found.column("amount").to_pylist() == [None, None]
    assert found.column("x").to_pylist() == [1, 1]


@ENGINES
def test_something_that_is_no_rows_is_refused(made: tuple[lentic.Table, Any]) -> None:
    table, _ = made
    with pytest.raises(lentic.SchemaMismatch, match="Rows came as list"):
        table.upsert([{"id": "a"}])


def test_a_path_that_is_no_table_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(lentic.TableNotFound, match="no table") as caught:
        lentic.open(str(tmp_path))
    assert "lentic.create" in caught.value.next_step
    assert list(tmp_path.iterdir()) == []


def rewrite(path: str, key: str, value: str) -> None:
    file = Path(path, ".hoodie", "hoodie.properties")
    lines = file.read_text("latin-1").splitlines()
    changed = [f"{key}={value}" if line.startswith(f"{key}=") else line for line in lines]
    assert changed != lines
    file.write_text("\n".join(changed) + "\n", "latin-1")


@pytest.mark.parametrize(
    ("key", "value", "error", "words"),
    [
        ("hoodie.table.version", "6", lentic.UnsupportedFormat, "version 6"),
        ("hoodie.table.checksum", "1", lentic.Corrupt, "checksum"),
        ("hoodie.table.name", "other", lentic.Corrupt, "checksum"),
        ("hoodie.timeline.layout.version", "1", lentic.UnsupportedFormat, "layout"),
        ("lentic.buckets", "many", lentic.Corrupt, "lentic.buckets"),
    ],
)
def test_a_table_we_cannot_trust_is_refused_and_left_alone(
    tmp_path: Path, key: str, value: str, error: type[lentic.LenticError], words: str
) -> None:
    table = lentic.create(str(tmp_path / "t"), SCHEMA, key="id", partition_by="part", buckets=2)
    table.upsert(GOOD)
    rewrite(table.path, key, value)
    before = content(table.path)
    with pytest.raises(error, match=words):
        lentic.open(table.path)
    assert content(table.path) == before


def test_a_bucket_count_that_differs_from_the_tables_is_refused(tmp_path: Path) -> None:
    table = lentic.create(str(tmp_path / "t"), SCHEMA, key="id", buckets=2)
    with pytest.raises(lentic.ConfigError, match=r"num\.buckets=4 contradicts the table's own=2"):
        lentic.open(table.path, options={"hoodie.bucket.index.num.buckets": 4})


def test_an_existing_table_is_never_created_over(tmp_path: Path) -> None:
    table = lentic.create(str(tmp_path / "t"), SCHEMA, key="id", buckets=2)
    table.upsert(GOOD)
    with pytest.raises(lentic.TableExists):
        lentic.create(str(tmp_path / "t"), SCHEMA, key="ts", buckets=2)
    assert lentic.open(table.path).read().num_rows == GOOD.num_rows


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"key": None}, "at least one key"),
        ({"key": "nope"}, "nope"),
        ({"buckets": 0}, "buckets cannot be 0"),
        ({"table_type": "MOR"}, "table_type"),
        ({"ordering": "nope"}, "nope"),
        ({"options": {"hoodie.table.recordkey.fields": "ts"}}, "hoodie.table.recordkey.fields"),
        ({"options": {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}}, "ordering.fields"),
        ({"options": {"hoodie.bucket.index.num.buckets": "8"}}, "num.buckets"),
        ({"schema": "id strin"}, "strin"),
    ],
    ids=str,
)
def test_a_table_that_makes_no_sense_is_not_created(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    good = {"schema": SCHEMA, "key": "id", "buckets": 2}
    with pytest.raises(lentic.Refused) as caught:
        lentic.create(str(tmp_path / "t"), **(good | arguments))
    assert words in str(caught.value)
    assert not (tmp_path / "t").exists()


def test_an_unknown_option_warns_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.warns(lentic.UnknownOption, match=r"hoodie\.write\.lock\.wait_time_ms"):
        lentic.create(
            str(tmp_path / "t"),
            SCHEMA,
            key="id",
            buckets=2,
            options={"hoodie.write.lock.wait_time": 5},
        )
