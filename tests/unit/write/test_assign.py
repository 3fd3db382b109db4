"""Who takes new keys: small files first, up to the target, then new ones in equal shares."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from itertools import count, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.write.assign import Choice, Sizes, SmallFile, assign_groups

FULL = 2**32
SIZES = Sizes(target=1_000, small=800, row=10)


def _names() -> Callable[[], str]:
    numbers = count()
    return lambda: f"new{next(numbers)}"


def _choose(new: int, *small: tuple[str, int], sizes: Sizes = SIZES) -> Choice:
    files = [SmallFile(file_id, size) for file_id, size in small]
    return assign_groups({"p": new}, {"p": files}, sizes, _names())["p"]


def _shares(choice: Choice) -> dict[str, float]:
    """The share of hash values of each group."""
    ends = [0, *choice.below]
    parts = [(high - low) / FULL for low, high in pairwise(ends)]
    return dict(zip(choice.file_ids, parts, strict=True))


def _rows(choice: Choice, new: int) -> dict[str, int]:
    return {file_id: round(share * new) for file_id, share in _shares(choice).items()}


# Which groups, and how much of the rows


def test_a_partition_without_files_gets_new_ones_in_equal_shares() -> None:
    assert _rows(_choose(90), 90) == {"new0": 90}
    assert _rows(_choose(100), 100) == {"new0": 100}
    assert _rows(_choose(102), 102) == {"new0": 51, "new1": 51}
    assert _rows(_choose(900), 900) == {f"new{n}": 100 for n in range(9)}


def test_small_files_are_filled_first_smallest_first_and_up_to_the_target() -> None:
    choice = _choose(150, ("b", 700), ("a", 100), ("c", 0))
    assert _rows(choice, 150) == {"c": 100, "a": 50}
    choice = _choose(250, ("b", 700), ("a", 100), ("c", 0))
    assert _rows(choice, 250) == {"c": 100, "a": 90, "b": 30, "new0": 30}


def test_files_of_one_size_are_taken_by_name() -> None:
    assert _choose(5, ("b", 10), ("a", 10)) == _choose(5, ("a", 10), ("b", 10))
    assert _choose(5, ("b", 10), ("a", 10)).file_ids == ("a",)


@pytest.mark.parametrize("size", [800, 801, 1_000, 5_000])
def test_a_file_that_is_not_small_takes_nothing(size: int) -> None:
    assert _choose(5, ("a", size)).file_ids == ("new0",)


def test_a_file_with_room_for_no_row_takes_nothing() -> None:
    tight = Sizes(target=1_000, small=1_000, row=10)
    assert _choose(5, ("a", 991), sizes=tight).file_ids == ("new0",)
    assert _choose(5, ("a", 990), sizes=tight).file_ids == ("a", "new0")


def test_with_a_limit_of_zero_no_file_is_small() -> None:
    assert _choose(5, ("a", 0), sizes=Sizes(1_000, 0, 10)).file_ids == ("new0",)


def test_a_row_larger_than_a_file_gets_a_file_of_its_own() -> None:
    huge = Sizes(target=1_000, small=800, row=5_000.0)
    assert huge.rows == 1
    assert _rows(_choose(3, sizes=huge), 3) == {"new0": 1, "new1": 1, "new2": 1}


def test_partitions_are_chosen_for_on_their_own_and_only_those_with_new_rows() -> None:
    small = {"p": [SmallFile("a", 0)], "q": [SmallFile("b", 0)], "other": [SmallFile("c", 0)]}
    found = assign_groups({"q": 5, "p": 120, "r": 1, "none": 0}, small, SIZES, _names())
    assert {partition: choice.file_ids for partition, choice in found.items()} == {
        "p": ("a", "new0"),
        "q": ("b",),
        "r": ("new1",),
    }


@given(
    st.integers(1, 10_000),
    st.lists(st.integers(0, 1_500), max_size=6),
    st.integers(1, 2_000),
    st.integers(0, 2_000),
    st.floats(0.5, 50, allow_nan=False),
)
@settings(max_examples=300, deadline=None)
def test_no_group_is_planned_beyond_the_target_and_all_rows_are_planned_for(
    new: int, held: list[int], target: int, limit: int, row: float
) -> None:
    sizes = Sizes(target, limit, row)
    small = {f"s{n}": size for n, size in enumerate(held)}
    choice = _choose(new, *small.items(), sizes=sizes)
    shares = _shares(choice)
    assert len(set(choice.file_ids)) == len(choice.file_ids)
    assert choice.below[-1] == FULL
    assert list(choice.below) == sorted(choice.below)
    assert math.isclose(sum(shares.values()), 1)
    for file_id, share in shares.items():
        planned = share * new
        assert planned > 0
        if file_id in small:
            assert small[file_id] < limit
            assert small[file_id] + planned * row <= target + row
        else:
            assert planned <= sizes.rows + 1e-3
    if any(file_id.startswith("new") for file_id in choice.file_ids):
        room = {s for s, size in small.items() if size < limit and int((target - size) / row) > 0}
        assert room <= set(choice.file_ids), "new files are made only when small ones are full"


# Where a key goes


KEYS = st.lists(st.text(max_size=12), max_size=30)


@given(KEYS, st.integers(1, 2_000), st.lists(st.integers(0, 900), max_size=3))
@settings(max_examples=200, deadline=None)
def test_every_key_goes_to_exactly_one_group_whatever_else_is_in_the_batch(
    keys: list[str], new: int, held: list[int]
) -> None:
    choice = _choose(new, *((f"s{n}", size) for n, size in enumerate(held)))
    chosen = choice.choose(pa.array(keys, pa.string()))
    assert len(chosen) == len(keys)
    assert all(0 <= at < len(choice.file_ids) for at in chosen.tolist())
    for key, at in zip(keys, chosen.tolist(), strict=True):
        assert choice.choose(pa.array([key], pa.string())).tolist() == [at]
    again = choice.choose(pa.array(keys[::-1], pa.string()))
    assert again.tolist() == chosen.tolist()[::-1]
    copied: Choice = pickle.loads(pickle.dumps(choice))
    assert copied.choose(pa.array(keys, pa.string())).tolist() == chosen.tolist()


def test_a_group_takes_hash_values_below_its_end_and_not_the_end_itself() -> None:
    empty = pa.array([""])  # whose hash is 0
    assert Choice(("a", "b"), (0, FULL)).choose(empty).tolist() == [1]
    assert Choice(("a", "b"), (1, FULL)).choose(empty).tolist() == [0]


def test_keys_may_come_in_chunks_and_slices() -> None:
    choice = _choose(1_000)
    keys = [f"k{n}" for n in range(200)]
    whole = choice.choose(pa.array(keys)).tolist()
    chunked = pa.chunked_array([keys[:7], keys[7:120], keys[120:]])
    assert choice.choose(chunked).tolist() == whole
    assert choice.choose(pa.array(keys).slice(50, 100)).tolist() == whole[50:150]


KINDS: dict[str, Callable[[int, str], str]] = {
    "counted": lambda n, salt: f"{salt}{n}",
    "padded": lambda n, salt: f"{salt}{n:012d}",
    "in steps": lambda n, salt: f"{salt}{n * 1_000}",
    "composite": lambda n, salt: f"id:{n},region:{salt}",
    "at the front": lambda n, salt: f"{n}-{salt}",
    "hexadecimal": lambda n, salt: f"{n * 0x9E3779B97F4A7C15 % 2**64:016x}{salt}",
}


@pytest.mark.parametrize("kind", KINDS)
@given(salt=st.text("abcxyz019-", max_size=8), held=st.lists(st.integers(0, 700), max_size=4))
@settings(max_examples=12, deadline=None)
def test_keys_spread_nearly_as_planned(kind: str, salt: str, held: list[int]) -> None:
    rows = 20_000
    sizes = Sizes(target=40_000, small=30_000, row=10)
    choice = _choose(rows, *((f"s{n}", size * 40) for n, size in enumerate(held)), sizes=sizes)
    keys = pa.array([KINDS[kind](n, salt) for n in range(rows)])
    got = np.bincount(choice.choose(keys), minlength=len(choice.file_ids)) / rows
    planned = np.array(list(_shares(choice).values()))
    assert np.abs(got - planned).max() < 0.02, (kind, got, planned)
