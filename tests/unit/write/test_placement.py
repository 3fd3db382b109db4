"""Cutting rows into groups: every row once, in order, with its key."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.write.placement import GroupRows, group_rows

PLACES = st.tuples(
    st.sampled_from(["", "p", "p/q", "day=2026-01-01"]), st.sampled_from(["0", "1", "10", "f-0"])
)


def _cut(places: list[tuple[str, str]], chunk: int = 100) -> list[GroupRows]:
    table = pa.table({"n": pa.array(range(len(places)), pa.int64())})
    if places:
        table = pa.concat_tables([table.slice(at, chunk) for at in range(0, len(places), chunk)])
    keys = pa.array([f"k{n}" for n in range(len(places))], pa.string())
    partitions = pa.array([partition for partition, _ in places], pa.string())
    slots = pa.array([slot for _, slot in places], pa.string())
    return list(group_rows(table, keys, partitions, slots))


@given(st.lists(PLACES, max_size=40), st.integers(1, 7))
@settings(max_examples=200, deadline=None)
def test_every_row_is_in_the_group_of_its_place_once_and_in_order(
    places: list[tuple[str, str]], chunk: int
) -> None:
    parts = _cut(places, chunk)
    assert len({(part.partition, part.slot) for part in parts}) == len(parts) == len(set(places))
    seen: list[int] = []
    for part in parts:
        numbers = part.rows.column("n").to_pylist()
        assert numbers == sorted(numbers)
        assert part.keys.to_pylist() == [f"k{n}" for n in numbers]
        assert {places[n] for n in numbers} == {(part.partition, part.slot)}
        seen += numbers
    assert sorted(seen) == list(range(len(places)))


def test_no_rows_make_no_groups() -> None:
    assert _cut([]) == []


def test_one_slot_of_two_partitions_is_two_groups() -> None:
    parts = _cut([("p", "0"), ("q", "0"), ("p", "0")])
    found = {(part.partition, part.slot): part.rows.column("n").to_pylist() for part in parts}
    assert found == {("p", "0"): [0, 2], ("q", "0"): [1]}


def test_the_cut_is_the_same_however_the_rows_are_chunked() -> None:
    """A task that runs twice may get its rows in other batches."""
    places = [("pq"[n % 2], str(n % 3)) for n in range(50)]
    whole = {(p.partition, p.slot): p.rows.to_pylist() for p in _cut(places)}
    for chunk in (1, 7, 49):
        assert {(p.partition, p.slot): p.rows.to_pylist() for p in _cut(places, chunk)} == whole
