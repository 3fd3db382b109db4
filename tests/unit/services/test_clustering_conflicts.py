"""Clustering and writers on the same file groups: ingestion wins, and nobody's rows are lost."""

from __future__ import annotations

import pytest

from lentic.engine import LocalEngine
from lentic.errors import WriteConflict
from lentic.format.times import RequestedAt
from lentic.services import clustering
from lentic.services.outcome import Aborted, Committed, Outcome
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.testing.checkers import check_table, list_leftovers
from lentic.timeline.cancel_requests import list_cancelled
from lentic.timeline.reader import load_timeline
from tests.rfc.claims import says
from tests.unit.builders import rows
from tests.unit.services.clusterings import (
    ENGINE,
    cluster,
    execute,
    opened,
    pending,
    schedule,
    storage_of,
)
from tests.unit.verbs import BUCKETED, JOINED, found, loaded

SHARED = {
    "hoodie__write__concurrency__mode": "optimistic_concurrency_control",
    "hoodie__clean__failed__writes__policy": "LAZY",
}


class Meanwhile:
    """An engine that does something else first, once: what others do while work runs."""

    def __init__(self, does: object) -> None:
        self.does = does

    def __getattr__(self, name: str) -> object:
        return getattr(ENGINE, name)

    def run(self, *args: object) -> list[str]:
        does, self.does = self.does, None
        done = ENGINE.run(*args)  # type: ignore[arg-type]
        if callable(does):
            does()
        return done


def execute_while(table: Table, at: RequestedAt, does: object) -> Outcome:
    return clustering.execute_clustering(opened(table), Meanwhile(does), at)  # type: ignore[arg-type]


@says("rfc66.commit.occ")
@JOINED
@pytest.mark.parametrize("when", ["before the execution", "during it"])
def test_a_clustering_yields_to_a_write_after_its_plan_and_is_aborted(kind: str, when: str) -> None:
    table = loaded(kind)
    at = schedule(table, sort_by=("v",))

    def write() -> None:
        table.upsert(rows(("a", 10, "mon")))

    if when == "during it":
        ended = execute_while(table, at, write)
    else:
        write()
        ended = execute(table, at)
    assert isinstance(ended, Aborted) and ended.instant.is_aborted
    assert pending(table) == ()
    assert found(table) == {("a", 10, "mon"): 1, ("b", 2, "mon"): 1, ("c", 3, "tue"): 1}
    assert check_table(storage_of(table)) == [] and list_leftovers(storage_of(table)) == []
    assert verify_table(storage_of(table)) == [] and not list_cancelled(storage_of(table))
    cluster(table, sort_by=("v",))
    assert sum(found(table).values()) == 3


@JOINED
def test_a_clustering_yields_to_an_overwrite_of_its_partition(kind: str) -> None:
    table = loaded(kind)
    at = schedule(table, sort_by=("v",))
    table.insert_overwrite(rows(("z", 1, "mon")))
    assert isinstance(execute(table, at), Aborted)
    assert found(table) == {("z", 1, "mon"): 1, ("c", 3, "tue"): 1}


@JOINED
def test_writes_to_other_groups_do_not_matter(kind: str) -> None:
    table = loaded(kind, **SHARED)
    at = schedule(table, sort_by=("v",), partitions=["mon"])
    execute_while(table, at, lambda: table.upsert(rows(("c", 4, "tue"), ("n", 1, "mon"))))
    assert found(table) == {
        ("a", 1, "mon"): 1,
        ("b", 2, "mon"): 1,
        ("n", 1, "mon"): 1,
        ("c", 4, "tue"): 1,
    }


def test_in_buckets_logs_that_come_later_lie_on_top() -> None:
    table = loaded("MERGE_ON_READ 2")
    at = schedule(table, sort_by=("v",))
    table.upsert(rows(("a", 10, "mon")))
    execute_while(table, at, lambda: table.upsert(rows(("b", 20, "mon"), ("d", 4, "mon"))))
    expected = {("a", 10, "mon"): 1, ("b", 20, "mon"): 1, ("d", 4, "mon"): 1, ("c", 3, "tue"): 1}
    assert found(table) == expected
    table.compact()
    assert found(table) == expected


@BUCKETED
def test_in_buckets_a_base_file_that_comes_later_wins(kind: str) -> None:
    table = loaded(kind)
    at = schedule(table, sort_by=("v",))
    ended = execute_while(table, at, lambda: table.insert_overwrite(rows(("a", 10, "mon"))))
    assert isinstance(ended, Aborted)
    assert found(table) == {("a", 10, "mon"): 1, ("c", 3, "tue"): 1}
    assert pending(table) == () and list_leftovers(storage_of(table)) == []


@says("rfc66.commit.occ")
@JOINED
def test_a_writer_that_began_before_the_clustering_completed_writes_again(kind: str) -> None:
    """The write's rows went to groups that have ended since: it is refused, and then succeeds."""
    table = loaded(kind, **SHARED)
    plans = [schedule(table, sort_by=("v",))]

    class Clusters(LocalEngine):
        def shuffle(self, source: object, shuffle: object) -> list[str]:
            done = super().shuffle(source, shuffle)  # type: ignore[arg-type]
            if plans:
                execute(table, plans.pop())
            return done

    writer = Table(opened(table), Clusters(threads=1))
    with pytest.raises(WriteConflict):
        writer.upsert(rows(("a", 10, "mon")))
    assert sum(found(table).values()) == 3 and ("a", 1, "mon") in found(table)
    writer.upsert(rows(("a", 10, "mon")))
    assert found(table) == {("a", 10, "mon"): 1, ("b", 2, "mon"): 1, ("c", 3, "tue"): 1}
    assert check_table(storage_of(table)) == []


@JOINED
def test_new_keys_beside_a_clustering_that_completes_are_no_conflict(kind: str) -> None:
    table = loaded(kind, **SHARED)
    plans = [schedule(table, sort_by=("v",))]

    class Clusters(LocalEngine):
        def shuffle(self, source: object, shuffle: object) -> list[str]:
            done = super().shuffle(source, shuffle)  # type: ignore[arg-type]
            if plans:
                execute(table, plans.pop())
            return done

    Table(opened(table), Clusters(threads=1)).upsert(rows(("new", 10, "mon")))
    assert sum(found(table).values()) == 4 and ("new", 10, "mon") in found(table)


@says("cancel.goal.a")
@JOINED
def test_a_write_cancels_the_plan_as_it_lands_and_a_clean_ends_it(kind: str) -> None:
    table = loaded(kind)
    at = schedule(table, sort_by=("v",))
    table.upsert(rows(("n", 1, "mon")))
    assert not list_cancelled(storage_of(table)), "new keys go elsewhere"
    table.upsert(rows(("a", 10, "mon")))
    assert [plan.requested_at for plan in pending(table)] == [at]
    assert list_cancelled(storage_of(table)) == {at}
    table.clean()
    assert pending(table) == () and not list_cancelled(storage_of(table))
    assert [i.requested_at for i in load_timeline(storage_of(table)).aborted()] == [at]
    assert list_leftovers(storage_of(table)) == [] and verify_table(storage_of(table)) == []


@says("cancel.rollout.ingest", "cancel.goal.a")
def test_in_buckets_only_who_rewrites_a_group_cancels_its_plan() -> None:
    table = loaded("MERGE_ON_READ 2")
    at = schedule(table, sort_by=("v",))
    table.upsert(rows(("a", 10, "mon")))
    assert not list_cancelled(storage_of(table))
    table.insert_overwrite(rows(("a", 11, "mon")))
    assert list_cancelled(storage_of(table)) == {at}


@JOINED
def test_a_plan_that_may_not_be_cancelled_keeps_its_file_groups(kind: str) -> None:
    table = loaded(kind)
    at = schedule(table, sort_by=("v",), cancellable=False)
    with pytest.raises(WriteConflict, match="may not be cancelled"):
        table.upsert(rows(("a", 10, "mon")))
    assert [plan.requested_at for plan in pending(table)] == [at]
    assert isinstance(execute(table, at), Committed)
    table.upsert(rows(("a", 10, "mon")))
    assert found(table) == {("a", 10, "mon"): 1, ("b", 2, "mon"): 1, ("c", 3, "tue"): 1}
    assert list_leftovers(storage_of(table)) == [] and verify_table(storage_of(table)) == []


def test_a_write_that_is_refused_cancels_nothing() -> None:
    table = loaded("COPY_ON_WRITE None")
    schedule(table, sort_by=("v",), partitions=["mon"])
    schedule(table, sort_by=("v",), partitions=["tue"], cancellable=False)
    with pytest.raises(WriteConflict, match="may not be cancelled"):
        table.upsert(rows(("a", 10, "mon"), ("c", 10, "tue")))
    assert not list_cancelled(storage_of(table))
