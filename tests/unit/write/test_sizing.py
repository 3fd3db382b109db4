"""What a row takes, which files are small, and which tables must not be written without buckets."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lentic.errors import ConfigError
from lentic.format.bucket import bucket_file_id
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileGroup, FileGroupId, FileSlice
from lentic.view.listing import load_table_view
from lentic.view.slicing import BEGINNING
from lentic.write.assign import Sizes, SmallFile
from lentic.write.sizing import choose_sizes, ensure_not_bucketed, estimate_row, small_files
from tests.unit.builders import SCHEMA, base_file, log_file, new_table, rows
from tests.unit.write.attempts import upsert

UUID = "be72a1c0-4138-4235-9544-b3531d4f0000-0"


def _group(file_id: str, *, partition: str = "p", base: bool = True, logs: int = 0) -> FileGroup:
    group = FileGroupId(partition, file_id)
    first = base_file(1, 2, file_id=file_id, partition=partition) if base else None
    found = tuple(log_file(n, n, file_id=file_id, partition=partition) for n in range(3, 3 + logs))
    barrier = first.name.requested_at if first else BEGINNING
    return FileGroup(group, (FileSlice(group, barrier, first, found),))


# Bytes per row


def _sizes(table: OpenTable) -> Sizes:
    return choose_sizes(table, load_timeline(table.storage), SCHEMA)


def test_sizes_are_the_options_and_a_new_tables_rows_go_by_their_types() -> None:
    table = new_table(buckets=None)
    assert _sizes(table) == Sizes(120 << 20, 100 << 20, estimate_row(SCHEMA))
    options: dict[str, object] = {
        "hoodie.parquet.max.file.size": 4096,
        "hoodie.parquet.small.file.limit": 1024,
        "hoodie.copyonwrite.record.size.estimate": 77,
    }
    sizes = _sizes(new_table(buckets=None, options=options))
    assert sizes == Sizes(4096, 1024, 77.0)
    assert sizes.rows == 53


def test_a_table_with_base_files_says_itself_what_a_row_takes() -> None:
    table = new_table(buckets=None)
    upsert(table, rows(*((f"k{n}", n, f"d{n % 2}") for n in range(300))))
    groups = load_table_view(table.storage, load_timeline(table.storage))
    written = sum(group.latest.base.size for group in groups if group.latest.base)
    assert _sizes(table).row == written / 300


def test_what_the_user_says_of_rows_counts_more_than_what_was_measured() -> None:
    table = new_table(buckets=None, options={"hoodie.copyonwrite.record.size.estimate": 5})
    upsert(table, rows(("a", 1, "d")))
    assert _sizes(table).row == 5.0


def test_commits_without_base_files_say_nothing_about_rows() -> None:
    table = new_table(buckets=2)
    upsert(table, rows(("a", 1, "d")))
    assert _sizes(table).row == estimate_row(SCHEMA)


def test_the_newest_commit_that_wrote_base_files_is_asked() -> None:
    table = new_table(buckets=None)
    upsert(table, rows(*((f"k{n}", n, "d1") for n in range(500))))
    wide = _sizes(table).row
    upsert(table, rows(("x", 1, "d2")))
    alone = _sizes(table).row
    assert alone > 100 > wide, "a file of one row is mostly footer"
    for number in range(3):
        upsert(table, rows(("x", number, "d2")))
    groups = load_table_view(table.storage, load_timeline(table.storage))
    assert sum(len(group.latest.logs) for group in groups) == 3
    assert _sizes(table).row == alone, "logs on top change nothing"


def test_a_commit_of_empty_base_files_alone_is_passed_over() -> None:
    table = new_table(buckets=None, table_type="COPY_ON_WRITE")
    upsert(table, rows(("a", 1, "d")))
    before = _sizes(table).row
    upsert(table, SCHEMA.empty_table())
    assert _sizes(table).row == before


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        (pa.int64(), 8),
        (pa.int32(), 4),
        (pa.bool_(), 1 / 8),
        (pa.float64(), 8),
        (pa.date32(), 4),
        (pa.timestamp("us"), 8),
        (pa.decimal128(30, 6), 16),
        (pa.string(), 12),
        (pa.binary(), 12),
        (pa.binary(5), 5),
        (pa.list_(pa.int64()), 48),
        (pa.map_(pa.string(), pa.int64()), 48),
        (pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.int32())]))]), 12),
        (pa.struct([]), 0),
    ],
)
def test_every_type_has_a_width(kind: pa.DataType, width: float) -> None:
    nothing = estimate_row(pa.schema([]))
    assert nothing > 0
    assert estimate_row(pa.schema([("x", kind)])) == nothing + width / 2
    assert estimate_row(pa.schema([("x", kind), ("y", pa.int64())])) == nothing + width / 2 + 4


# Small files


def test_only_groups_that_are_a_base_file_alone_can_be_filled() -> None:
    groups = [
        _group("a"),
        _group("b", logs=1),
        _group("c", base=False, logs=2),
        _group("d", partition="q"),
        _group("e"),
    ]
    assert small_files(groups) == {
        "p": [SmallFile("a", 100), SmallFile("e", 100)],
        "q": [SmallFile("d", 100)],
    }
    assert small_files([]) == {}


def test_the_latest_slice_decides() -> None:
    old, new = base_file(1, 2), base_file(5, 6)
    group = FileGroupId("p", "fg")
    slices = (
        FileSlice(group, new.name.requested_at, new, ()),
        FileSlice(group, old.name.requested_at, old, (log_file(3, 4),)),
    )
    assert small_files([FileGroup(group, slices)]) == {"p": [SmallFile("fg", 100)]}


# Tables that have buckets though nobody said so


@pytest.mark.parametrize(
    "groups",
    [
        (),
        (_group(UUID),),
        (_group(UUID, logs=2), _group("00000000-be72-4138-b235-9544b3531d4f-0")),
        (_group("12345678-be72-4138-b235-9544b3531d4f-0"),),
        (_group("00010000-be72-4138-b235-9544b3531d4f-0"),),
    ],
    ids=["no groups", "random", "one by chance", "digits", "beyond any bucket count"],
)
def test_groups_of_a_lookup_index_pass(groups: tuple[FileGroup, ...]) -> None:
    ensure_not_bucketed(groups, "orders")


@pytest.mark.parametrize(
    "groups",
    [
        (_group(bucket_file_id(0)),),
        (_group(bucket_file_id(0)), _group(bucket_file_id(9_999))),
        (_group("00000003-be72-4138-b235-9544b3531d4f-0", logs=1),),
        (_group(UUID), _group(UUID, partition="q", base=False, logs=1)),
    ],
    ids=["ours", "many", "Hudi's", "log without base"],
)
def test_groups_of_a_bucket_index_are_refused_with_the_remedy(
    groups: tuple[FileGroup, ...],
) -> None:
    with pytest.raises(ConfigError, match="orders has file groups") as caught:
        ensure_not_bucketed(groups, "orders")
    assert "hoodie.bucket.index.num.buckets" in caught.value.next_step
    assert "nothing was committed" in caught.value.safe
