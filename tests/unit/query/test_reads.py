"""Queries on a real table: what they read, and what they do not even look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lentic
from lentic.engine import LocalEngine
from lentic.query.incremental import read_changed_rows
from lentic.query.snapshot import read_rows
from lentic.txn.transaction import OpenTable
from tests.rfc.claims import says
from tests.unit.builders import WrappedStorage, new_table, rows
from tests.unit.write.attempts import begin, finish

ENGINE = LocalEngine(threads=1)
BOTH = pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])


def upsert(table: OpenTable, *given: tuple[str, int, str]) -> Any:
    return finish(table, rows(*given), begin(table))


def keys(found: pa.Table) -> list[str]:
    return sorted(found.column("id").to_pylist())


def listed(storage: WrappedStorage, ask: Callable[[], Any]) -> tuple[Any, set[str], set[str]]:
    """The answer, the partitions that were listed for it, and the data files that were opened."""
    storage.calls.clear()
    answer = ask()
    calls = list(storage.calls)
    folders = {path for op, path in calls if op in ("list_files", "walk")}
    opened = {path for op, path in calls if op in ("open_input", "read")}
    return answer, folders, {path for path in opened if not path.startswith(".hoodie")}


@BOTH
def test_a_filter_on_the_partition_lists_that_partition_alone(table_type: str) -> None:
    storage = WrappedStorage()
    table = new_table(storage=storage, table_type=table_type)
    upsert(table, *((f"k{n}", n, f"d{n}") for n in range(5)))
    found, folders, opened = listed(
        storage, lambda: read_rows(table, ENGINE, filter="day = 'd3' and v >= 0")
    )
    assert keys(found) == ["k3"]
    assert {f for f in folders if not f.startswith(".hoodie")} == {"d3"}
    assert {path.partition("/")[0] for path in opened} == {"d3"}


@BOTH
def test_a_filter_on_the_key_opens_one_bucket_per_partition(table_type: str) -> None:
    storage = WrappedStorage()
    table = new_table(storage=storage, table_type=table_type)
    upsert(table, *((f"k{n}", n, "d") for n in range(40)))
    everything, _, all_files = listed(storage, lambda: read_rows(table, ENGINE))
    found, _, opened = listed(storage, lambda: read_rows(table, ENGINE, filter="id = 'k7'"))
    assert keys(found) == ["k7"]
    assert len(everything) == 40
    assert len(opened) == 1 < len(all_files)


@BOTH
def test_changes_look_at_the_partitions_they_touched_and_no_other(table_type: str) -> None:
    storage = WrappedStorage()
    table = new_table(storage=storage, table_type=table_type)
    first = upsert(table, *((f"k{n}", n, f"d{n}") for n in range(5)))
    upsert(table, ("k2", 9, "d2"))

    def changes() -> pa.Table:
        return read_changed_rows(
            table,
            ENGINE,
            after=first.completed_at,
            upto=None,
            columns=None,
            filter=None,
            meta=False,
        )

    found, folders, _ = listed(storage, changes)
    assert keys(found) == ["k2"]
    assert {f for f in folders if not f.startswith(".hoodie")} == {"d2"}


@pytest.fixture
def table(tmp_path: Path) -> lentic.Table:
    made = lentic.create(
        str(tmp_path / "t"), "id string, v int, day string", key="id", partition_by="day", buckets=2
    )
    return made


def batch(table: lentic.Table, *given: tuple[str, int, str]) -> pa.Table:
    columns = list(zip(*given, strict=True)) or [[], [], []]
    return pa.table([list(column) for column in columns], schema=table.schema)


@says("rfc66.travel.moment")
def test_time_travel_shows_each_state_and_refuses_none_of_them(table: lentic.Table) -> None:
    states = [table.upsert(batch(table, (f"k{n}", n, "d"))) for n in range(3)]
    table.compact()
    for number, commit in enumerate(states):
        expected = [f"k{n}" for n in range(number + 1)]
        assert keys(table.read(as_of=commit.requested_at)) == expected
        assert keys(table.read(as_of=commit.completed_at)) == expected
    assert table.read(as_of="2000-01-01").num_rows == 0


def test_read_optimized_shows_base_files_alone(table: lentic.Table) -> None:
    table.upsert(batch(table, ("a", 1, "d")))
    assert table.read(mode="read_optimized").num_rows == 0
    table.compact()
    table.upsert(batch(table, ("a", 2, "d"), ("b", 2, "d")))
    assert table.read(mode="read_optimized").to_pylist() == [{"id": "a", "v": 1, "day": "d"}]


def test_changes_by_kind(table: lentic.Table) -> None:
    first = table.upsert(batch(table, ("a", 1, "d"), ("b", 1, "d")))
    second = table.upsert(batch(table, ("b", 2, "d"), ("c", 2, "e")))
    assert keys(table.changes(after=first.completed_at)) == ["b", "c"]
    assert keys(table.changes(upto=first.completed_at)) == ["a", "b"]
    assert table.changes(after=second.completed_at).num_rows == 0
    changes = table.changes(after=first.completed_at, kind="cdc").sort_by("op").to_pylist()
    assert changes == [
        {
            "op": "i",
            "ts": second.requested_at,
            "before": None,
            "after": {"id": "c", "v": 2, "day": "e"},
        },
        {
            "op": "u",
            "ts": second.requested_at,
            "before": {"id": "b", "v": 1, "day": "d"},
            "after": {"id": "b", "v": 2, "day": "d"},
        },
    ]


def test_a_stream_gives_the_rows_of_a_read_slice_by_slice(table: lentic.Table) -> None:
    table.upsert(batch(table, *((f"k{n}", n, f"d{n % 3}") for n in range(50))))
    stream = table.stream(filter="v >= 10", columns=["id"])
    assert stream.schema.names == ["id"]
    assert keys(stream.read_all()) == keys(table.read(filter="v >= 10"))


@pytest.mark.parametrize(
    "question",
    [{"filter": 5}, {"mode": "fast"}, {"as_of": "soon"}, {"columns": []}, {"columns": ["nope"]}],
    ids=str,
)
def test_a_question_that_makes_no_sense_is_refused(
    table: lentic.Table, question: dict[str, Any]
) -> None:
    with pytest.raises(lentic.Refused) as caught:
        table.read(**question)
    assert caught.value.safe == "nothing was read"
    assert caught.value.next_step


def test_changes_that_cannot_be_are_refused(table: lentic.Table) -> None:
    for question in ({"kind": "all"}, {"after": "5", "upto": "3"}, {"after": "then"}):
        with pytest.raises(lentic.ConfigError):
            table.changes(**question)
