"""Overwrites and deletes, for both table types with and without buckets: what readers see after."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lentic.errors import ConfigError, Corrupt, SchemaMismatch
from lentic.format.names import Action
from lentic.storage.base import FileInfo
from lentic.table import Table
from lentic.timeline.reader import load_commit_metadata, load_timeline
from tests.unit.builders import SCHEMA, rows
from tests.unit.verbs import (
    BUCKETED,
    COW,
    EVERY,
    FIRST,
    JOINED,
    are,
    counts,
    found,
    loaded,
    make_table,
)

# Overwriting


def _overwrites(table: Table) -> bool:
    """Whether the newest write is on the timeline as this kind of table overwrites."""
    newest = max(load_timeline(table._opened.storage).writes(), key=lambda i: str(i.completed_at))
    replaces = table.config.buckets is None
    plain = Action.COMMIT if table.config.table_type.value == COW else Action.DELTACOMMIT
    written = load_commit_metadata(table._opened.storage, newest)
    return newest.action is (Action.REPLACECOMMIT if replaces else plain) and (
        replaces or not written.replaced
    )


@EVERY
def test_overwriting_replaces_the_partitions_that_occur_and_no_others(kind: str) -> None:
    table = loaded(kind)
    table.upsert(rows(("b", 20, "mon")))
    moment = table.timeline()[-1]
    done = table.insert_overwrite(rows(("z", 9, "mon"), ("a", 8, "mon"), ("w", 7, "wed")))
    assert counts(done) == (3, 0, 2)
    assert _overwrites(table)
    now = (("z", 9, "mon"), ("a", 8, "mon"), ("w", 7, "wed"), ("c", 3, "tue"))
    assert found(table) == Counter(now)
    earlier = found(table, as_of=str(moment.requested_at))
    assert earlier == Counter([("a", 1, "mon"), ("b", 20, "mon"), ("c", 3, "tue")])
    are(table, *now)


@EVERY
def test_what_was_overwritten_is_forgotten_by_later_writes(kind: str) -> None:
    table = loaded(kind, ordering="v")
    table.insert_overwrite(rows(("z", 9, "mon")))
    done = table.upsert(rows(("a", 0, "mon"), ("z", 10, "mon")))
    assert counts(done) == (1, 1, 0), "a is new, however late by what was there once"
    are(table, ("a", 0, "mon"), ("z", 10, "mon"), ("c", 3, "tue"))
    assert counts(table.delete(rows(("b", None, "mon"), ("z", None, "mon")))) == (0, 0, 1)
    assert counts(table.insert_overwrite(rows(("q", 1, "mon")))) == (1, 0, 1)
    are(table, ("q", 1, "mon"), ("c", 3, "tue"))


@EVERY
def test_overwriting_the_table_replaces_everything(kind: str) -> None:
    table = loaded(kind)
    done = table.insert_overwrite_table(rows(("z", 9, "tue"), ("y", 8, "wed")))
    assert counts(done) == (2, 0, 3)
    assert _overwrites(table)
    are(table, ("z", 9, "tue"), ("y", 8, "wed"))


@EVERY
def test_overwriting_with_no_rows_changes_no_partition_but_empties_a_table(kind: str) -> None:
    table = loaded(kind)
    assert counts(table.insert_overwrite(SCHEMA.empty_table())) == (0, 0, 0)
    are(table, *FIRST)
    assert counts(table.insert_overwrite_table(SCHEMA.empty_table())) == (0, 0, 3)
    are(table)
    assert counts(table.upsert(rows(*FIRST))) == (3, 0, 0)
    are(table, *FIRST)


@EVERY
def test_overwriting_an_empty_table_is_a_first_load(kind: str) -> None:
    table = make_table(kind)
    assert counts(table.insert_overwrite(rows(*FIRST))) == (3, 0, 0)
    are(table, *FIRST)


@EVERY
def test_deleted_partitions_are_empty_and_can_be_filled_again(kind: str) -> None:
    table = loaded(kind)
    table.upsert(rows(("w", 4, "wed")))
    done = table.delete_partitions(["mon", "wed", "mon", "never"])
    assert counts(done) == (0, 0, 3)
    assert _overwrites(table)
    are(table, ("c", 3, "tue"))
    assert counts(table.delete_partitions(["mon"])) == (0, 0, 0)
    assert counts(table.upsert(rows(("a", 1, "mon")))) == (1, 0, 0)
    are(table, ("a", 1, "mon"), ("c", 3, "tue"))


@EVERY
@pytest.mark.parametrize("partitions", ["mon", [], [""], ["../x"], [".hoodie"], ["/etc"]])
def test_what_is_no_list_of_partitions_is_refused_before_the_first_byte(
    kind: str, partitions: Any
) -> None:
    table = loaded(kind)
    before = table._opened.storage.walk("")
    with pytest.raises(ConfigError, match="partition"):
        table.delete_partitions(partitions)
    assert table._opened.storage.walk("") == before


# Deleting


@EVERY
def test_rows_are_deleted_by_key_and_absent_keys_are_ignored(kind: str) -> None:
    table = loaded(kind)
    keys = pa.table({"day": ["mon", "mon", "tue", "sun"], "id": ["a", "x", "b", "a"]})
    assert counts(table.delete(keys)) == (0, 0, 1)
    are(table, ("b", 2, "mon"), ("c", 3, "tue"))
    assert counts(table.delete(keys)) == (0, 0, 0)
    are(table, ("b", 2, "mon"), ("c", 3, "tue"))


@EVERY
def test_other_columns_of_rows_to_delete_do_not_matter(kind: str) -> None:
    table = loaded(kind, ordering="v")
    late = rows(("a", 0, "mon")).append_column("other", pa.array([1.5]))
    assert counts(table.delete(late)) == (0, 0, 1)
    assert "other" not in table.schema.names
    are(table, ("b", 2, "mon"), ("c", 3, "tue"))


@EVERY
def test_rows_are_deleted_by_a_condition(kind: str) -> None:
    table = loaded(kind)
    assert counts(table.delete("v >= 2 and day = 'mon'")) == (0, 0, 1)
    are(table, ("a", 1, "mon"), ("c", 3, "tue"))
    assert counts(table.delete("v > 100")) == (0, 0, 0)
    assert counts(table.delete("v > 0")) == (0, 0, 2)
    are(table)


@EVERY
def test_a_deleted_key_can_be_written_again(kind: str) -> None:
    table = loaded(kind)
    table.delete(rows(("a", None, "mon")))
    assert counts(table.upsert(rows(("a", 7, "mon")))) == (1, 0, 0)
    are(table, ("a", 7, "mon"), ("b", 2, "mon"), ("c", 3, "tue"))


@EVERY
@pytest.mark.parametrize("missing", ["id", "day"])
def test_to_delete_rows_their_key_and_partition_columns_are_needed(kind: str, missing: str) -> None:
    table = loaded(kind)
    before = table._opened.storage.walk("")
    with pytest.raises(SchemaMismatch, match=f"{missing} is missing") as caught:
        table.delete(rows(("a", 1, "mon")).drop_columns([missing]))
    assert "id, day" in caught.value.next_step
    assert table._opened.storage.walk("") == before


# Tables that are opened for what they are not


@BUCKETED
@pytest.mark.parametrize(
    "verb",
    ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete"],
)
def test_a_table_in_buckets_is_not_written_as_one_without(kind: str, verb: str) -> None:
    """As a table of Apache Hudi is, whose properties do not say how many buckets there are."""
    table = loaded(kind)
    table._opened = _with_buckets(table, None)
    before = _files(table)
    with pytest.raises(ConfigError, match="made by a bucket index") as caught:
        getattr(table, verb)(rows(("a", 1, "mon")))
    assert "hoodie.bucket.index.num.buckets" in caught.value.next_step
    assert _files(table) == before
    are(table, *FIRST)


@JOINED
def test_a_table_without_buckets_is_not_written_as_one_in_buckets(kind: str) -> None:
    table = loaded(kind)
    table._opened = _with_buckets(table, 4)
    with pytest.raises(Corrupt, match="does not fit the table's bucket count"):
        table.upsert(rows(("a", 10, "mon")))
    are(table, *FIRST)


def _files(table: Table) -> list[FileInfo]:
    """All files, but for the word that nothing can be added to a write that was refused."""
    files = table._opened.storage.walk("")
    return [file for file in files if not file.path.endswith(".finalized.json")]


def _with_buckets(table: Table, buckets: int | None) -> Any:
    return replace(table._opened, config=replace(table.config, buckets=buckets))
