"""The archives are what the README says, and the comparisons of this directory can fail."""

from __future__ import annotations

import copy
import datetime as dt
import tarfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.golden import archive
from tests.golden.canonical import canonical, canonical_rows, ensure_same_columns, ensure_same_rows
from tests.golden.cases import EXPECTED, HUDI_IS_WRONG, RIGHT_INSTEAD, Case, answer, list_cases
from tests.golden.changes import ensure_same_changes

TABLES = 35
BYTES_MAX = 8_000_000


@pytest.mark.parametrize("path", [archive.TABLES, archive.EXPECTED], ids=lambda path: path.name)
def test_an_archive_tells_nothing_of_the_machine_that_packed_it(path: Path) -> None:
    members = archive.members(path)
    names = [member.name for member in members]
    assert names == sorted(names)
    assert all(member.isreg() and member.mtime == 0 for member in members)
    assert {(m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {(0, 0, "", "", 0o644)}


def test_the_archives_are_small_and_hold_every_table_with_its_answers(golden: Path) -> None:
    assert archive.TABLES.stat().st_size + archive.EXPECTED.stat().st_size < BYTES_MAX
    tables = sorted(path.name for path in golden.iterdir())
    assert len(tables) == TABLES
    assert tables == sorted(EXPECTED)
    assert {recorded["writer"] for recorded in EXPECTED.values()} == {
        "Apache Hudi 1.2.0 / Spark 3.5"
    }


def test_packing_what_was_unpacked_gives_the_same_members(golden: Path, tmp_path: Path) -> None:
    root = golden / "mor_with_crc"
    again = tmp_path / "again.tar.xz"
    archive.pack(golden, [path for path in root.rglob("*") if path.is_file()], again)
    kept = [m for m in archive.members(archive.TABLES) if m.name.startswith(f"{root.name}/")]
    assert [m.get_info() for m in archive.members(again)] == [m.get_info() for m in kept]
    archive.unpack(again, tmp_path / "out")
    for member in kept:
        assert (tmp_path / "out" / member.name).read_bytes() == (golden / member.name).read_bytes()


def test_a_member_that_would_leave_the_directory_is_refused(tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.tar.xz"
    with tarfile.open(hostile, "w:xz") as tar:
        tar.addfile(tarfile.TarInfo("../outside"))
    with pytest.raises(ValueError, match="no plain file"):
        archive.unpack(hostile, tmp_path / "out")
    assert not (tmp_path / "outside").exists()


def test_each_answer_held_wrong_has_its_reason_and_differs_from_the_right_one() -> None:
    assert len(HUDI_IS_WRONG) <= 2
    assert HUDI_IS_WRONG.keys() == RIGHT_INSTEAD.keys()
    for table, query in HUDI_IS_WRONG:
        cases = [c for c in list_cases() if c.table == table and query in (c.query, c.kind)]
        assert cases
        for case in cases:
            assert answer(case) != case.entry["rows"]


@pytest.mark.parametrize("case", [c for c in list_cases() if c.kind == "time_travel"], ids=str)
def test_as_of_means_the_same_by_requested_and_by_completion_time(case: Case) -> None:
    """Hudi counts what was requested by then, we what had completed; here they agree."""
    writes = [i for i in EXPECTED[case.table]["timeline"] if "commit" in i["action"]]
    moment = max(i["completed"] for i in writes if i["requested"] == case.entry["as_of"])
    requested = [i for i in writes if i["requested"] <= case.entry["as_of"]]
    assert requested == [i for i in writes if i["completed"] <= moment]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (0.1, pa.float64(), "0.1"),
        (0.1, pa.float32(), "0.10000000149011612"),
        (-0.0, pa.float64(), "-0.0"),
        (Decimal("12.500"), pa.decimal128(12, 3), "12.500"),
        (b"\x00\xff", pa.binary(), "00ff"),
        (dt.date(2024, 2, 3), pa.date32(), "2024-02-03"),
        (dt.datetime(2024, 2, 3), pa.timestamp("us"), "2024-02-03T00:00:00.000000"),
        (
            dt.datetime(2024, 2, 3, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            pa.timestamp("us", tz="Europe/Paris"),
            "2024-02-03T00:00:00.000000",
        ),
        ([("b", 1), ("a", None)], pa.map_(pa.string(), pa.int64()), {"a": None, "b": 1}),
        ([None, "a"], pa.list_(pa.string()), [None, "a"]),
        ({"a": None}, pa.struct([("a", pa.int32())]), {"a": None}),
    ],
)
def test_values_take_the_form_of_the_answers(value: Any, kind: pa.DataType, expected: Any) -> None:
    array = pa.array([value, None], kind)
    assert [canonical(v, kind) for v in array.to_pylist()] == [expected, None]


@pytest.mark.parametrize(
    "damage",
    [
        lambda rows: rows[1:],
        lambda rows: [*rows, rows[0]],
        lambda rows: [{**rows[0], "name": "another"}, *rows[1:]],
        lambda rows: [{**rows[0], "_hoodie_commit_seqno": None}, *rows[1:]],
        lambda rows: [{**rows[0], "arr": []}, *rows[1:]],
        lambda rows: [{n: v for n, v in rows[0].items() if n != "name"}, *rows[1:]],
    ],
    ids=["row lost", "row twice", "value changed", "nulled", "emptied", "column lost"],
)
def test_any_difference_between_rows_is_found(damage: Callable[[Any], Any]) -> None:
    rows = copy.deepcopy(EXPECTED["mor_v8"]["snapshot"])
    rows[0] |= {"name": "one", "arr": None}
    ensure_same_rows(list(reversed(rows)), rows)
    with pytest.raises(AssertionError):
        ensure_same_rows(damage(rows), rows)


@pytest.mark.parametrize(
    "ours",
    [
        pa.schema([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
        pa.schema([("b", pa.list_(pa.string())), ("a", pa.int64())]),
        pa.schema([("a", pa.int64())]),
        pa.schema([("a", pa.int64()), ("b", pa.list_(pa.binary()))]),
        pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.list_(pa.string()))]),
    ],
    ids=["type", "order", "column lost", "element type", "nullability"],
)
def test_any_difference_between_columns_is_found(ours: pa.Schema) -> None:
    array = {"type": "array", "elementType": "string", "containsNull": True}
    spark = [
        {"name": "a", "type": "long", "nullable": True},
        {"name": "b", "type": array, "nullable": True},
    ]
    same = pa.schema([("a", pa.int64()), ("b", pa.large_list(pa.large_string()))])
    ensure_same_columns(same, spark, nulls=True)
    with pytest.raises(AssertionError):
        ensure_same_columns(ours, spark, nulls=True)


IMAGE = pa.struct([("id", pa.string()), ("d", pa.decimal128(4, 1)), ("raw", pa.binary())])
ROW = {"id": "k", "d": Decimal("-2.5"), "raw": b"\xfe"}
OUT_OF_A_LOG = {"id": "k", "d": [-1, -25], "raw": "þ"}
OUT_OF_A_BASE_FILE = {"id": "k", "d": {"zero": False}, "raw": "/g==", "_hoodie_record_key": "k"}


@pytest.mark.parametrize("hudi", [OUT_OF_A_LOG, OUT_OF_A_BASE_FILE], ids=["log", "base file"])
@pytest.mark.parametrize("changed", [{}, {"d": None}, {"raw": b"\xff"}, {"id": "other"}], ids=str)
def test_any_difference_between_change_records_is_found(
    hudi: dict[str, Any], changed: dict[str, Any]
) -> None:
    ours = pa.table(
        {
            "op": ["i"],
            "ts": ["1"],
            "before": pa.array([None], IMAGE),
            "after": pa.array([{**ROW, **changed}], IMAGE),
        }
    )
    expected = [{"op": "i", "ts": "1", "before": None, "after": hudi}]
    if not changed:
        ensure_same_changes(ours, expected)
        return
    with pytest.raises(AssertionError):
        ensure_same_changes(ours, expected)


def test_rows_of_an_empty_table_are_no_rows() -> None:
    assert canonical_rows(pa.table({"a": pa.array([], pa.int64())})) == []
