"""Looking keys up on the local engine: every row finds each file that holds its key, or none."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.engine import FILE_ID, FOUND_IN, KEY, PARTITION, KeyFile, LocalEngine, Lookup
from lentic.errors import Corrupt, InvalidRecord

ENGINE = LocalEngine(threads=1)
Held = Mapping[tuple[str, str], list[str]]
"""Partition and file id -> the keys that the file holds."""
Row = tuple[str, str]
"""Key and partition."""


def _tag(rows: pa.RecordBatch) -> pa.RecordBatch:
    assert rows.schema.names == ["k", "p"], "no other columns than those asked for"
    if None in rows.column("k").to_pylist():
        raise InvalidRecord("A null key.")
    return pa.RecordBatch.from_arrays([rows.column("k"), rows.column("p")], [KEY, PARTITION])


def _lookup(held: Held, **changes: Any) -> Lookup:
    def files(partitions: tuple[str, ...]) -> tuple[KeyFile, ...]:
        assert list(partitions) == sorted(set(partitions))
        return tuple(KeyFile(p, file_id, f"{p}/{file_id}") for p, file_id in held)

    def read(file: KeyFile) -> Iterator[pa.Array]:
        keys = held[file.partition, file.file_id]
        for start in range(0, len(keys), 2):
            yield pa.array(keys[start : start + 2], pa.string())

    return replace(Lookup(("k", "p"), _tag, read, files), **changes)


def _source(rows: list[Row]) -> pa.Table:
    """Rows with a column that no lookup knows, numbered."""
    columns = {
        "n": pa.array(range(len(rows)), pa.int64()),
        "k": pa.array([key for key, _ in rows], pa.string()),
        "tags": pa.array([[key] for key, _ in rows], pa.list_(pa.string())),
        "p": pa.array([partition for _, partition in rows], pa.string()),
    }
    return pa.table(columns)


def _found(rows: list[Row], lookup: Lookup, engine: LocalEngine = ENGINE) -> list[Any]:
    """Per line: number, key, partition, the file group found, and its partition."""
    names = ("n", KEY, PARTITION, FILE_ID, FOUND_IN)
    located = engine.locate(_source(rows), lookup).rows
    return [tuple(line[name] for name in names) for line in located.to_pylist()]


HELD: Held = {("p", "f1"): ["a", "b", "c"], ("p", "f2"): ["d"], ("q", "f3"): ["a", "e"]}


def test_a_key_is_found_in_its_own_partition_only() -> None:
    rows = [("a", "p"), ("a", "q"), ("d", "q"), ("d", "p"), ("x", "p"), ("e", "r")]
    assert _found(rows, _lookup(HELD)) == [
        (0, "a", "p", "f1", "p"),
        (1, "a", "q", "f3", "q"),
        (2, "d", "q", None, None),
        (3, "d", "p", "f2", "p"),
        (4, "x", "p", None, None),
        (5, "e", "r", None, None),
    ]


def test_across_partitions_a_key_is_found_wherever_it_is() -> None:
    rows = [("d", "q"), ("e", "r"), ("x", "p"), ("a", "p")]
    assert _found(rows, _lookup(HELD, across=True)) == [
        (0, "d", "q", "f2", "p"),
        (1, "e", "r", "f3", "q"),
        (2, "x", "p", None, None),
        (3, "a", "p", "f1", "p"),
        (3, "a", "p", "f3", "q"),
    ]


def test_a_row_whose_key_several_files_hold_is_there_once_for_each() -> None:
    held = {("p", "f2"): ["a"], ("p", "f1"): ["b", "a"], ("p", "f3"): ["c"]}
    located = ENGINE.locate(_source([("a", "p"), ("z", "p"), ("a", "p")]), _lookup(held))
    lines = located.rows.select(["n", FILE_ID]).to_pylist()
    assert [(line["n"], line[FILE_ID]) for line in lines] == [
        (0, "f1"),
        (0, "f2"),
        (1, None),
        (2, "f1"),
        (2, "f2"),
    ]
    assert located.new == {"p": 1}


def test_new_keys_are_counted_by_partition_row_by_row() -> None:
    rows = [("x", "p"), ("x", "p"), ("a", "p"), ("y", "q"), ("e", "q")]
    assert ENGINE.locate(_source(rows), _lookup(HELD)).new == {"p": 2, "q": 1}
    assert ENGINE.locate(_source([("a", "p")]), _lookup(HELD)).new == {}


def test_without_files_to_look_into_every_key_is_new() -> None:
    rows = [("a", "p"), ("e", "q"), ("a", "p")]
    for lookup in (_lookup({}), _lookup(HELD, files=None), _lookup({("p", "f"): []})):
        located = ENGINE.locate(_source(rows), lookup)
        assert located.new == {"p": 2, "q": 1}
        assert located.rows.column(FILE_ID).null_count == 3
        assert {located.rows.column(name).type for name in (FILE_ID, FOUND_IN)} == {pa.string()}
        assert located.rows.column("n").to_pylist() == [0, 1, 2]


def test_files_are_asked_for_the_partitions_that_occur_and_no_others() -> None:
    asked: list[tuple[str, ...]] = []

    def files(partitions: tuple[str, ...]) -> tuple[KeyFile, ...]:
        asked.append(partitions)
        return ()

    ENGINE.locate(_source([("a", "q"), ("b", "p"), ("c", "q")]), _lookup({}, files=files))
    assert asked == [("p", "q")]


@pytest.mark.parametrize("across", [False, True])
def test_no_rows_find_nothing(across: bool) -> None:
    for source in (_source([]), _source([("a", "p")]).slice(0, 0), _source([]).to_reader()):
        located = ENGINE.locate(source, _lookup(HELD, across=across, settle=_never))
        assert located.new == {}
        assert located.rows.num_rows == 0
        added = [KEY, PARTITION, FILE_ID, FOUND_IN]
        assert located.rows.column_names == ["n", "k", "tags", "p", *added]


def _never(rows: pa.RecordBatch) -> pa.RecordBatch:
    raise AssertionError("nothing to settle")


def test_rows_keep_their_columns_types_and_order() -> None:
    source = _source([(f"k{n}", "pq"[n % 2]) for n in range(100)])
    chunks = pa.concat_tables([source.slice(at, 7) for at in range(0, 100, 7)])
    held = {("p", "f1"): [f"k{n}" for n in range(0, 100, 4)]}
    located = ENGINE.locate(chunks, _lookup(held)).rows
    assert located.select(source.column_names) == source
    assert located.column(FILE_ID).null_count == 75


@pytest.mark.parametrize("kind", ["table", "batch", "reader"])
def test_rows_may_come_in_every_arrow_form(kind: str) -> None:
    table = _source([("a", "p"), ("x", "p")])
    source = {
        "table": lambda: table,
        "batch": lambda: table.to_batches()[0],
        "reader": lambda: table.to_reader(),
    }[kind]()
    located = ENGINE.locate(source, _lookup(HELD))
    assert located.rows.column(FILE_ID).to_pylist() == ["f1", None]
    assert located.new == {"p": 1}


def test_what_was_found_may_be_settled_and_counts_as_settled() -> None:
    def settle(rows: pa.RecordBatch) -> pa.RecordBatch:
        """Every row moves to where its key is, or to z, where it is new."""
        at = rows.schema.get_field_index(PARTITION)
        moved = rows.column(FOUND_IN).fill_null("z")
        rows = rows.set_column(at, PARTITION, moved)
        return rows.append_column("settled", pa.repeat(pa.scalar(True), rows.num_rows))

    lookup = _lookup(HELD, across=True, settle=settle, settled=pa.schema([("settled", pa.bool_())]))
    located = ENGINE.locate(_source([("d", "q"), ("x", "p"), ("y", "q")]), lookup)
    assert located.rows.column(PARTITION).to_pylist() == ["p", "z", "z"]
    assert located.rows.column("settled").to_pylist() == [True] * 3
    assert located.new == {"z": 2}


def test_settling_may_add_and_remove_rows() -> None:
    lookup = _lookup(HELD, settle=lambda rows: pa.concat_batches([rows.slice(1), rows.slice(1)]))
    located = ENGINE.locate(_source([("a", "p"), ("x", "p")]), lookup)
    assert located.rows.column("n").to_pylist() == [1, 1]
    assert located.new == {"p": 2}


def test_a_row_that_has_no_key_stops_the_lookup_before_any_file_is_read() -> None:
    def read(file: KeyFile) -> Iterator[pa.Array]:
        raise AssertionError("no file is read")

    source = _source([("a", "p"), ("b", "p")]).set_column(1, "k", pa.array(["a", None]))
    with pytest.raises(InvalidRecord):
        ENGINE.locate(source, _lookup(HELD, read=read))


@pytest.mark.parametrize("threads", [1, 4])
def test_a_file_that_does_not_read_reaches_the_caller(threads: int) -> None:
    def read(file: KeyFile) -> Iterator[pa.Array]:
        raise Corrupt("Broken.", where=file.path)

    with pytest.raises(Corrupt) as caught:
        LocalEngine(threads).locate(_source([("a", "p")]), _lookup(HELD, read=read))
    assert caught.value.where in ("p/f1", "p/f2", "q/f3")


def test_one_thread_means_the_callers_own() -> None:
    seen: set[int] = set()

    def read(file: KeyFile) -> Iterator[pa.Array]:
        seen.add(threading.get_ident())
        yield pa.array(["a"])

    ENGINE.locate(_source([("a", "p")]), _lookup(HELD, read=read))
    assert seen == {threading.get_ident()}


def test_located_rows_can_be_used_until_they_are_released() -> None:
    located = ENGINE.locate(_source([("a", "p")]), _lookup(HELD))
    first = located.rows.to_pylist()
    assert located.rows.to_pylist() == first
    ENGINE.release(located)


KEYS = st.sampled_from(["a", "b", "c", "", "ä", "a:b,c:d"])
PARTITIONS = st.sampled_from(["", "p", "p/q"])


@given(
    st.lists(st.tuples(KEYS, PARTITIONS), max_size=12),
    st.lists(st.tuples(PARTITIONS, st.lists(KEYS, unique=True)), max_size=5),
    st.booleans(),
    st.integers(1, 3),
)
@settings(max_examples=150, deadline=None)
def test_a_lookup_is_a_left_join(
    rows: list[Row], files: list[tuple[str, list[str]]], across: bool, threads: int
) -> None:
    held = {(partition, f"f{n}"): keys for n, (partition, keys) in enumerate(files)}
    expected: list[Any] = []
    for number, (key, partition) in enumerate(rows):
        hits = [
            (number, key, partition, file_id, found_in)
            for (found_in, file_id), keys in held.items()
            if key in keys and (across or found_in == partition)
        ]
        expected += sorted(hits) or [(number, key, partition, None, None)]
    engine = LocalEngine(threads)
    if across and len({key for key, _ in rows}) < len(set(rows)):
        with pytest.raises(InvalidRecord, match="same key and different partitions"):
            engine.locate(_source(rows), _lookup(held, across=across))
        return
    assert _found(rows, _lookup(held, across=across), engine) == expected
    fresh = [line[2] for line in expected if line[3] is None]
    new = engine.locate(_source(rows), _lookup(held, across=across)).new
    assert new == {partition: fresh.count(partition) for partition in set(fresh)}
