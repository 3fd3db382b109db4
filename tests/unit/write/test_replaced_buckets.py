"""Buckets whose file group another engine has replaced: what is written to them must be seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lentic.format.bucket import bucket_file_id, parse_bucket
from lentic.format.commit_metadata import CommitMetadata, encode_commit_metadata
from lentic.format.names import Action
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable, transaction
from lentic.view.listing import load_table_view
from tests.rfc.claims import says
from tests.unit.builders import new_table, rows
from tests.unit.write.attempts import FIRST, begin, read_all, run_attempt, upsert

BOTH = pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
GIVEN = tuple((f"k{n}", n, "d") for n in range(8))


def _end_groups(table: OpenTable) -> tuple[str, ...]:
    """Replace all groups of partition `d` by nothing, as Hudi's delete_partition does."""
    groups = load_table_view(table.storage, load_timeline(table.storage))
    file_ids = tuple(group.id.file_id for group in groups if group.id.partition == "d")
    written = CommitMetadata(
        operation="DELETE_PARTITION", compacted=False, stats=(), replaced={"d": file_ids}
    )
    with transaction(table) as txn:
        instant = txn.start(txn.request(Action.REPLACECOMMIT))
    with transaction(table) as txn:
        txn.complete(instant, encode_commit_metadata(written, replaces=True))
    return file_ids


def _file_ids(table: OpenTable) -> list[str]:
    view = load_table_view(table.storage, load_timeline(table.storage))
    return [group.id.file_id for group in view]


@BOTH
def test_rows_written_after_a_replacement_are_seen(table_type: str) -> None:
    table = new_table(table_type=table_type)
    for round_ in range(3):
        given = [(key, value + round_, day) for key, value, day in GIVEN]
        upsert(table, rows(*given))
        found = {key: row["v"] for key, row in read_all(table).items()}
        assert found == {key: value for key, value, _ in given}
        assert _file_ids(table) == [
            f"{bucket:08d}-0000-0000-0000-{round_:012d}-0" for bucket in range(2)
        ]
        upsert(table, rows(*given))  # into the same groups
        assert len(_end_groups(table)) == 2
        assert read_all(table) == {}


@BOTH
def test_other_partitions_keep_their_file_ids(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=1)
    upsert(table, rows(("a", 1, "d")))
    _end_groups(table)
    upsert(table, rows(("a", 1, "d"), ("b", 2, "e")))
    first, second = _file_ids(table)
    assert (parse_bucket(first), first != bucket_file_id(0)) == (0, True)
    assert second == bucket_file_id(0)


@says("robust.ids.driver")
def test_attempts_at_one_write_choose_the_same_new_file_id() -> None:
    table = new_table(buckets=1)
    upsert(table, rows(("a", 1, "d")))
    ended = frozenset(_end_groups(table))
    begun = begin(table)
    given = rows(("a", 2, "d"))
    (one,) = run_attempt(table, begun, given)
    (other,) = run_attempt(table, begun, given, replace(FIRST, number=1))
    assert one == other  # the second is not needed: they are at the same share
    assert one.stat.file_id == bucket_file_id(0, ended) != bucket_file_id(0)
