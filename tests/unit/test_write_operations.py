"""Upserts and inserts, for both table types with and without buckets: what readers see after."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lentic.errors import SchemaMismatch
from tests.unit.builders import SCHEMA, rows
from tests.unit.verbs import (
    BUCKETED,
    EVERY,
    FIRST,
    JOINED,
    are,
    counts,
    found,
    groups,
    loaded,
    make_table,
)
from tests.unit.write.attempts import stored_rows

# Upserts, counted


@EVERY
def test_upserts_are_counted_exactly(kind: str) -> None:
    table = make_table(kind)
    assert counts(table.upsert(rows(*FIRST))) == (3, 0, 0)
    done = table.upsert(rows(("b", 20, "mon"), ("d", 4, "mon"), ("e", 5, "wed"), ("c", 3, "mon")))
    assert counts(done) == (3, 1, 0), "c of another partition is another record"
    assert counts(table.upsert(rows(("d", 40, "mon"), ("e", 50, "wed")))) == (0, 2, 0)
    are(
        table,
        ("a", 1, "mon"),
        ("b", 20, "mon"),
        ("c", 3, "mon"),
        ("c", 3, "tue"),
        ("d", 40, "mon"),
        ("e", 50, "wed"),
    )


@EVERY
def test_late_rows_are_counted_nowhere(kind: str) -> None:
    table = make_table(kind, ordering="v")
    table.upsert(rows(("a", 5, "mon"), ("b", 5, "mon")))
    batch = rows(("a", 4, "mon"), ("b", 6, "mon"), ("c", 1, "mon"))
    assert counts(table.upsert(batch)) == (1, 1, 0)
    assert counts(table.upsert(rows(("b", 5, "mon")))) == (0, 0, 0)
    assert counts(table.upsert(batch)) == (0, 2, 0), "what is as new as the stored row wins"
    done = table.upsert(rows(("a", None, "mon"), ("b", 3, "mon"), ("c", 0, "mon")))
    assert counts(done) == (0, 0, 0)
    are(table, ("a", 5, "mon"), ("b", 6, "mon"), ("c", 1, "mon"))


@EVERY
def test_rows_that_say_they_are_deleted_are_counted_if_there_was_something_to_delete(
    kind: str,
) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = make_table(kind, schema=schema)
    table.upsert(rows(*FIRST))
    given = rows(("a", 1, "mon"), ("x", 1, "mon"), ("b", 20, "mon"))
    flags = pa.array([True, True, None])
    done = table.upsert(given.append_column("_hoodie_is_deleted", flags))
    assert counts(done) == (0, 1, 1)
    are(table, ("b", 20, "mon"), ("c", 3, "tue"))


@EVERY
def test_counting_may_be_switched_off(kind: str) -> None:
    table = loaded(kind, lentic__write__exact_counts=False)
    done = table.upsert(rows(("a", 10, "mon")))
    assert counts(done) == (0, 1, 0)
    done = table.insert_overwrite(rows(("z", 9, "mon")))
    assert counts(done) == (1, 0, 0)
    are(table, ("z", 9, "mon"), ("c", 3, "tue"))


@EVERY
def test_of_equal_keys_in_a_batch_the_newest_is_upserted(kind: str) -> None:
    table = make_table(kind, ordering="v")
    batch = rows(("a", 1, "mon"), ("a", 9, "mon"), ("a", 5, "mon"))
    assert counts(table.upsert(batch)) == (1, 0, 0)
    are(table, ("a", 9, "mon"))
    later = make_table(kind)
    assert counts(later.upsert(batch)) == (1, 0, 0)
    are(later, ("a", 5, "mon"))


# Inserts


@BUCKETED
def test_in_buckets_an_insert_is_an_upsert(kind: str) -> None:
    table = loaded(kind, ordering="v")
    done = table.insert(rows(("a", 10, "mon"), ("b", 1, "mon"), ("d", 4, "mon"), ("d", 5, "mon")))
    assert counts(done) == (1, 1, 0)
    are(table, ("a", 10, "mon"), ("b", 2, "mon"), ("d", 5, "mon"), ("c", 3, "tue"))


@JOINED
@pytest.mark.parametrize("limit", [0, 100_000_000], ids=["new files", "small files"])
@pytest.mark.parametrize("ordering", ["", "v"])
def test_without_buckets_an_insert_looks_no_key_up(kind: str, limit: int, ordering: str) -> None:
    """Neither where it has to make a file nor where it fills one that holds the key."""
    table = loaded(kind, ordering=ordering, hoodie__parquet__small__file__limit=limit)
    done = table.insert(rows(("a", 0, "mon"), ("d", 4, "mon"), ("d", 4, "mon")))
    assert counts(done) == (3, 0, 0)
    are(table, *FIRST, ("a", 0, "mon"), ("d", 4, "mon"), ("d", 4, "mon"))
    assert len(groups(table)) == (2 if limit else 3)


@JOINED
@pytest.mark.parametrize("limit", [0, 100_000_000], ids=["new files", "small files"])
@pytest.mark.parametrize("combines", [True, False])
def test_equal_keys_of_one_insert_are_combined_if_so_asked(
    kind: str, limit: int, combines: bool
) -> None:
    table = loaded(
        kind,
        ordering="v",
        hoodie__combine__before__insert=combines,
        hoodie__parquet__small__file__limit=limit,
    )
    batch = (("d", 7, "mon"), ("d", 9, "mon"), ("d", 8, "mon"), ("a", 0, "mon"))
    done = table.insert(rows(*batch))
    if combines:
        assert counts(done) == (2, 0, 0)
        are(table, *FIRST, ("d", 9, "mon"), ("a", 0, "mon"))
    else:
        assert counts(done) == (4, 0, 0)
        are(table, *FIRST, *batch)


@BUCKETED
@pytest.mark.parametrize("combines", [True, False])
def test_in_buckets_equal_keys_never_stay(kind: str, combines: bool) -> None:
    """Readers merge them by key, whatever the option says."""
    table = make_table(kind, ordering="v", hoodie__combine__before__insert=combines)
    batch = rows(("d", 7, "mon"), ("d", 9, "mon"), ("d", 8, "mon"))
    for write in (table.insert, table.bulk_insert, table.insert_overwrite):
        write(batch)
        are(table, ("d", 9, "mon"))


@JOINED
def test_an_upsert_after_an_insert_updates_every_row_of_the_key(kind: str) -> None:
    table = loaded(kind, hoodie__parquet__small__file__limit=0)
    table.insert(rows(("a", 10, "mon")))
    table.upsert(rows(("a", 100, "mon")))
    assert {row for row in found(table) if row[0] == "a"} == {("a", 100, "mon")}
    table.delete(rows(("a", None, "mon")))
    are(table, ("b", 2, "mon"), ("c", 3, "tue"))


# Bulk inserts


@EVERY
@pytest.mark.parametrize("sort_by", ["v", ["v", "id"], ()])
def test_a_bulk_insert_makes_sorted_base_files(kind: str, sort_by: Any) -> None:
    table = make_table(kind)
    given = [(f"k{n}", 97 * n % 40, f"d{n % 2}") for n in range(40)]
    assert counts(table.bulk_insert(rows(*given), sort_by=sort_by)) == (40, 0, 0)
    for part in table.file_slices():
        assert part.base is not None
        assert part.logs == ()
        values = [row["v"] for row in stored_rows(table._opened, part.base.path)]
        assert values == sorted(values) or not sort_by
        assert values
    are(table, *given)


@JOINED
def test_a_bulk_insert_makes_files_of_the_target_size_and_fills_none(kind: str) -> None:
    table = loaded(
        kind,
        hoodie__parquet__max__file__size=1_024,
        hoodie__copyonwrite__record__size__estimate=100,
    )
    before = groups(table)
    done = table.bulk_insert(rows(*((f"k{n}", n, "mon") for n in range(100))))
    assert (done.inserted, done.files) == (100, 10)
    assert len(groups(table) - before) == 10
    assert before < groups(table)
    assert len(table.read()) == 103


@BUCKETED
def test_a_bulk_insert_into_buckets_that_are_there_is_an_upsert(kind: str) -> None:
    table = loaded(kind, ordering="v")
    before = groups(table)
    done = table.bulk_insert(rows(("a", 9, "mon"), ("b", 1, "mon"), ("c", 30, "tue")))
    assert counts(done) == (0, 2, 0)
    assert groups(table) == before
    are(table, ("a", 9, "mon"), ("b", 2, "mon"), ("c", 30, "tue"))


@EVERY
def test_a_column_that_rows_cannot_be_sorted_by_is_refused(kind: str) -> None:
    table = loaded(kind)
    before = table.timeline()
    with pytest.raises(SchemaMismatch, match="nope"):
        table.bulk_insert(rows(("z", 1, "mon")), sort_by="nope")
    assert table.timeline() == before
