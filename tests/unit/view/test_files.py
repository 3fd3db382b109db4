"""Files, slices and groups as values."""

from __future__ import annotations

import pytest

from lentic.format.names import requested_at_of
from lentic.view.files import FileGroup, FileGroupId
from tests.unit.builders import GROUP, base_file, log_file, requested, slice_of, time


def test_a_slice_sums_its_files_and_names_them_in_merge_order() -> None:
    base, first, second = base_file(1, 2), log_file(3, 4), log_file(5, 6)
    whole = slice_of(base, first, second)
    assert whole.size == 120
    assert whole.paths == (base.path, first.path, second.path)
    without_base = slice_of(None, first)
    assert without_base.size == 10
    assert without_base.paths == (first.path,)
    assert slice_of(base).paths == (base.path,)


def test_the_latest_slice_is_the_first() -> None:
    newest, older = slice_of(base_file(5, 6)), slice_of(base_file(1, 2))
    assert FileGroup(GROUP, (newest, older)).latest == newest


def test_two_slices_are_equal_only_if_every_file_is() -> None:
    assert slice_of(base_file(1, 2), log_file(3, 4)) == slice_of(base_file(1, 2), log_file(3, 4))
    assert slice_of(base_file(1, 2), log_file(3, 4)) != slice_of(base_file(1, 2), log_file(3, 5))
    assert slice_of(base_file(1, 2)) != slice_of(base_file(1, 2), log_file(3, 4))


def test_a_group_reads_as_its_path() -> None:
    assert str(FileGroupId("a/b", "f")) == "a/b/f"
    assert str(FileGroupId("", "f")) == "f"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        (f"fg_0-0-0_{time(1)}.parquet", 1),
        (f".fg_{time(2)}.log.1_0-0-0", 2),
        (f".fg_{time(3)}.log.1_0-0-0.cdc", 3),
        (".hoodie_partition_metadata", None),
        (f"{time(1)}_{time(2)}.commit", None),
        ("", None),
    ],
)
def test_a_data_files_name_tells_the_instant_that_made_it(name: str, number: int | None) -> None:
    assert requested_at_of(name) == (requested(number) if number else None)
