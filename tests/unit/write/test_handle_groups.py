"""Attempts meet in file groups: one per bucket, whoever made them, and edges of an attempt."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.engine import Attempt
from lentic.errors import Corrupt, InvalidRecord
from lentic.format.names import parse_base_file, parse_log_file
from lentic.format.properties import decode_properties
from lentic.query.snapshot import read_rows
from lentic.timeline.reader import load_timeline
from lentic.write.completion import decode_accepted, statuses_of
from lentic.write.group_writer import ensure_partition
from lentic.write.markers import list_announced
from tests.unit.builders import (
    SCHEMA,
    WrappedStorage,
    data_paths,
    new_table,
    requested,
    rows,
)
from tests.unit.write.attempts import (
    ENGINE,
    begin,
    commit,
    make_handle,
    read_all,
    run_attempt,
    stored_rows,
    upsert,
)

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
BOTH = pytest.mark.parametrize("table_type", [MOR, COW])


@BOTH
@given(
    batches=st.lists(
        st.lists(
            st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 9), st.sampled_from(["x", "y"])),
            min_size=1,
            max_size=8,
        ),
        min_size=1,
        max_size=4,
    ),
    buckets=st.integers(1, 3),
    tasks=st.integers(1, 4),
)
@settings(max_examples=25, deadline=None)
def test_a_key_stays_in_one_file_group_over_any_number_of_writes(
    table_type: str, batches: list[list[tuple[str, int, str]]], buckets: int, tasks: int
) -> None:
    table = new_table(
        table_type=table_type,
        buckets=buckets,
        options={"hoodie.upsert.shuffle.parallelism": tasks},
    )
    model: dict[tuple[str, str], int] = {}
    for batch in batches:
        upsert(table, rows(*batch))
        model |= {(key, day): value for key, value, day in batch}
    home: dict[tuple[str, str], set[str]] = {}
    for path in data_paths(table.storage):
        name = path.rpartition("/")[2]
        parsed = parse_log_file(name) or parse_base_file(name)
        assert parsed is not None
        for row in stored_rows(table, path):
            home.setdefault((row["id"], row["day"]), set()).add(parsed.file_id)
    assert all(len(groups) == 1 for groups in home.values())
    found = read_rows(table, ENGINE).to_pylist()
    assert {(row["id"], row["day"]): row["v"] for row in found} == model
    assert len(found) == len(model)


def test_a_group_with_another_random_file_id_is_kept() -> None:
    """Tables of Apache Hudi have file ids that only begin with the bucket."""
    table = new_table(table_type=COW, buckets=1)
    begun = begin(table)
    (status,) = run_attempt(table, begun, rows(("a", 1, "d")))
    file_id = "00000000-be72-4138-b235-9544b3531d4f-0"
    stat = status.stat
    name = stat.name.replace(stat.file_id, file_id)
    table.storage.put_if_absent(f"d/{name}", table.storage.read(stat.path))
    foreign = replace(stat, file_id=file_id, path=f"d/{name}")
    commit(table, begun, [replace(status, stat=foreign)])
    upsert(table, rows(("b", 2, "d")))
    names = {path.rpartition("/")[2][:38] for path in data_paths(table.storage)}
    assert names == {file_id}
    assert {key: row["v"] for key, row in read_all(table).items()} == {"a": 1, "b": 2}


@pytest.mark.parametrize("buckets", [1, 2])
def test_groups_that_do_not_fit_the_bucket_count_are_refused(buckets: int) -> None:
    """N16: another bucket count would put keys into two groups."""
    table = new_table(buckets=8)
    upsert(table, rows(*((f"k{n}", n, "d") for n in range(50))))
    other = replace(table, config=replace(table.config, buckets=buckets))
    begun = begin(other)
    with pytest.raises(Corrupt) as caught:
        run_attempt(other, begun, rows(("k1", 1, "d")))
    assert "hoodie.bucket.index.num.buckets" in caught.value.next_step


def test_two_groups_of_one_bucket_are_refused() -> None:
    """A key of that bucket could lie in either."""
    table = new_table(buckets=1)
    upsert(table, rows(("a", 1, "d")))
    begun = begin(table)
    (status,) = run_attempt(table, begun, rows(("b", 2, "d")))
    second = "00000000-be72-4138-b235-9544b3531d4f-0"
    name = status.stat.name.replace(status.stat.file_id, second)
    table.storage.put_if_absent(f"d/{name}", table.storage.read(status.stat.path))
    stat = replace(status.stat, file_id=second, path=f"d/{name}", log_files=(name,))
    commit(table, begun, [replace(status, stat=stat)])
    with pytest.raises(Corrupt, match="does not fit"):
        run_attempt(table, begin(table), rows(("c", 3, "d")))


# Edges


@BOTH
def test_no_rows_make_no_files(table_type: str) -> None:
    table = new_table(table_type=table_type)
    begun = begin(table)
    assert run_attempt(table, begun, SCHEMA.empty_table()) == []
    assert run_attempt(table, begun, rows(("a", 1, "d")).slice(0, 0)) == []
    assert data_paths(table.storage) == []
    assert list_announced(table.storage, begun.instant.requested_at) == ()


@BOTH
def test_rows_are_brought_to_the_tables_columns_and_types(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=1)
    given = pa.table(
        {
            "day": pa.array(["d"], pa.large_string()),
            "_hoodie_commit_time": ["from a read"],
            "v": pa.array([7], pa.int32()),
            "id": pa.array(["a"]).dictionary_encode(),
        }
    )
    at = upsert(table, given)
    (row,) = read_all(table).values()
    assert (row["id"], row["v"], row["day"], row["_hoodie_commit_time"]) == ("a", 7, "d", at)


@BOTH
def test_a_null_where_the_table_has_none_is_an_invalid_record(table_type: str) -> None:
    schema = pa.schema(
        [("id", pa.string()), pa.field("v", pa.int64(), nullable=False), ("day", pa.string())]
    )
    table = new_table(table_type=table_type, schema=schema)
    begun = begin(table)
    handle = make_handle(table, begun, schema=schema)
    with pytest.raises(InvalidRecord, match="Column v"):
        list(handle(Attempt(0, 0), iter(rows(("a", None, "d")).to_batches())))
    assert data_paths(table.storage) == []


@BOTH
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.struct([pa.field("x", pa.int64(), nullable=False)]), {"x": None}),
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), [1, None]),
    ],
)
def test_a_null_deeper_down_is_an_invalid_record_too(
    table_type: str, kind: pa.DataType, value: Any
) -> None:
    schema = SCHEMA.append(pa.field("deep", kind))
    table = new_table(table_type=table_type, schema=schema)
    loose = pa.struct([("x", pa.int64())]) if pa.types.is_struct(kind) else pa.list_(pa.int64())
    given = rows(("a", 1, "d")).append_column("deep", pa.array([value], loose))
    begun = begin(table)
    handle = make_handle(table, begun, schema=schema)
    with pytest.raises(InvalidRecord, match="deep"):
        list(handle(Attempt(0, 0), iter(given.to_batches())))


def test_a_handle_is_a_value_that_travels() -> None:
    table = new_table()
    begun = begin(table)
    handle = pickle.loads(pickle.dumps(make_handle(table, begun)))
    given = rows(("a", 1, "d"))
    texts: Iterator[str] = handle(Attempt(0, 0), iter(given.to_batches()))
    assert len(statuses_of(map(decode_accepted, texts))) == 1


def test_what_completed_after_the_write_began_is_not_merged_with() -> None:
    table = new_table(table_type=COW, buckets=1)
    begun = begin(table)
    upsert(table, rows(("a", 1, "d")))
    (status,) = run_attempt(table, begun, rows(("b", 2, "d")))
    assert [row["id"] for row in stored_rows(table, status.stat.path)] == ["b"]


def test_a_partition_is_made_known_once() -> None:
    storage = WrappedStorage()
    for number in (1, 2):
        ensure_partition(storage, "a/b", requested(number))
    values = decode_properties(storage.read("a/b/.hoodie_partition_metadata"), "")
    assert values == {"commitTime": requested(1), "partitionDepth": "2"}
    ensure_partition(storage, "", requested(3))
    assert (
        decode_properties(storage.read(".hoodie_partition_metadata"), "")["partitionDepth"] == "0"
    )
    assert sum(op == "put_if_absent" for op, _ in storage.calls) == 2


def test_the_timeline_of_a_write_is_the_one_before_it() -> None:
    table = new_table()
    begun = begin(table)
    assert begun.timeline.instants == ()
    assert load_timeline(table.storage).instants == (begun.instant,)
