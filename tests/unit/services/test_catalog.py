"""Services by name: schedule, execute, explain, plans, and what runs after a commit."""

from __future__ import annotations

import logging

import pytest

from lentic.engine import LocalEngine
from lentic.errors import ConfigError, PlanBusy, StorageError
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.services import inline
from lentic.services.outcome import AlreadyCommitted, Committed
from lentic.table import Table
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from tests.unit.builders import data_paths, new_table, rows

ENGINE = LocalEngine(threads=1)


def _table(commits: int, **given: object) -> Table:
    table = Table(new_table(**given), ENGINE)  # type: ignore[arg-type]
    for number in range(commits):
        table.upsert(rows(("a", number, "d"), (f"n{number}", number, "d")))
    return table


def _everything(table: Table) -> dict[str, bytes]:
    storage = table._opened.storage
    return {file.path: storage.read(file.path) for file in storage.walk("")}


@pytest.mark.parametrize("service", ["compaction", "log_compaction", "clustering", "clean"])
def test_a_plan_of_any_service_is_found_by_its_time_and_executed_once(service: str) -> None:
    options: dict[str, object] = {
        "hoodie.clean.commits.retained": 1,
        "hoodie.log.compaction.blocks.threshold": 2,
    }
    table = _table(4, options=options)
    if service == "clean":
        table.compact()
        table.upsert(rows(("a", 9, "d")))
        table.compact()
    before = table.read().to_pylist()
    given = {"sort_by": ("v",)} if service == "clustering" else {}
    at = table.schedule(service, **given)
    assert at is not None
    assert table.schedule(service, **given) == at, "a plan that is pending is meant"
    assert [plan.requested_at for plan in table.plans()] == [at]
    assert isinstance(table.execute(at), Committed)
    assert isinstance(table.execute(at), AlreadyCommitted)
    assert table.plans() == []
    assert table.read().to_pylist() == before
    assert table.verify() == []


def test_a_service_that_is_not_there_and_what_it_cannot_be_told_are_refused_with_what_can() -> None:
    table = _table(1)
    with pytest.raises(ConfigError, match="(?s)no service 'vacuum'.*compaction, log_compaction"):
        table.schedule("vacuum")
    with pytest.raises(ConfigError, match="clean cannot be told sort_by"):
        table.schedule("clean", sort_by="v")
    with pytest.raises(ConfigError, match="no plan at 20200101000000000"):
        table.execute("20200101000000000")


@pytest.mark.parametrize(
    ("service", "given"),
    [
        ("compaction", {}),
        ("log_compaction", {}),
        ("clustering", {"sort_by": ("v",)}),
        ("clean", {}),
        ("archive", {}),
        ("savepoint", {}),
    ],
)
def test_a_dry_run_changes_nothing_and_says_what_the_run_does(
    service: str, given: dict[str, object]
) -> None:
    options: dict[str, object] = {
        "hoodie.clean.commits.retained": 1,
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "hoodie.log.compaction.blocks.threshold": 2,
    }
    table = _table(3, options=options)
    table.compact()
    for number in range(3):
        table.upsert(rows(("a", 10 + number, "d")))
    if service == "clean":
        table.compact()
    before = _everything(table)
    said = table.explain(service, **given)
    assert _everything(table) == before
    assert said.steps, said
    assert said.to_json()["steps"][0]["files"] == said.steps[0].files
    if service in ("compaction", "log_compaction", "clustering"):
        at = table.schedule(service, **given)
        assert at is not None
        pending = table.explain(service, **given)
        assert (pending.steps, pending.pending) == (said.steps, at)
        of_bases = 4 if service == "clustering" else 2  # which takes both buckets
        assert said.steps[0].rows == of_bases + 3
    if service == "clean":
        gone = len(data_paths(table._opened.storage))
        table.clean()
        assert gone - len(data_paths(table._opened.storage)) == said.steps[0].files


def test_a_dry_run_of_undoing_names_the_files_and_leaves_them() -> None:
    table = _table(2)
    first = table.timeline()[0].requested_at
    last = table.timeline()[-1].requested_at
    before = _everything(table)
    made = sum(last in path for path in data_paths(table._opened.storage))
    assert made > 0
    assert table.explain("rollback", requested_at=last).steps[0].files == made
    assert [s.files for s in table.explain("restore", requested_at=first).steps] == [1, made]
    assert _everything(table) == before


def test_a_plan_says_who_is_at_it_and_what_to_do() -> None:
    table = _table(2)
    at = table.schedule("compaction")
    storage = table._opened.storage
    (idle,) = table.plans()
    assert (idle.owner, idle.blockers, idle.next_step) == ("", (), f't.execute("{at}")')
    assert idle.action is Action.COMPACTION and idle.state is State.REQUESTED
    assert at is not None
    now = table._opened.world.clock.now_ms()
    storage.replace(layout.heartbeat(at), b'{"host": "far", "pid": 7, "seq": 1}')
    (busy,) = table.plans()
    assert busy.owner == "far:7"
    assert busy.heartbeat_age_s == max(
        0.0, (now - storage.info(layout.heartbeat(at)).modified_ms) / 1000
    )  # type: ignore[union-attr]
    assert busy.blockers and ("wait" in busy.next_step or "execute" in busy.next_step)


INLINE: dict[str, object] = {
    "hoodie.compact.inline": True,
    "hoodie.compact.inline.max.delta.commits": 2,
    "hoodie.clean.automatic": True,
    "hoodie.clean.commits.retained": 2,
    "hoodie.archive.automatic": True,
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 5,
}


def test_services_that_are_due_run_after_commits_and_bound_files_and_timeline() -> None:
    table = _table(30, options=INLINE)
    timeline = load_timeline(table._opened.storage)
    assert len(timeline.writes()) <= 6
    assert timeline.completed(Action.CLEAN) and table.history()
    assert len(data_paths(table._opened.storage)) < 20
    assert {row["id"] for row in table.read().to_pylist()} == {"a", *(f"n{n}" for n in range(30))}
    assert table.verify() == []


def test_no_service_runs_where_services_are_off() -> None:
    table = _table(6, options=INLINE | {"hoodie.table.services.enabled": False})
    actions = {instant.action for instant in table.timeline()}
    assert actions == {Action.DELTACOMMIT}


@pytest.mark.parametrize("error", [StorageError("The disk is full."), PlanBusy("Busy.")])
def test_a_service_that_fails_never_fails_the_commit_that_landed(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(table: OpenTable, engine: object, at: object) -> None:
        raise error

    monkeypatch.setattr(inline, "execute_compaction", fails)
    table = _table(1, options=INLINE)
    with caplog.at_level(logging.INFO):
        done = table.upsert(rows(("z", 1, "d")))
    assert done.inserted == 1
    assert "after the commit" in caplog.text
    assert len(load_timeline(table._opened.storage).pending(Action.COMPACTION)) == 1


def test_a_service_that_fails_is_raised_where_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(table: OpenTable, engine: object, at: object) -> None:
        raise StorageError("The disk is full.")

    monkeypatch.setattr(inline, "execute_compaction", fails)
    asked = {"hoodie.fail.writes.on.inline.table.service.exception": True}
    table = _table(1, options=INLINE | asked)
    with pytest.raises(StorageError, match="disk is full"):
        table.upsert(rows(("z", 1, "d")))
    assert {row["id"] for row in table.read().to_pylist()} == {"a", "n0", "z"}


def test_a_clustering_is_due_after_enough_commits_since_the_last() -> None:
    options: dict[str, object] = {
        "hoodie.clustering.inline": True,
        "hoodie.clustering.inline.max.commits": 3,
    }
    table = _table(7, options=options, buckets=None, table_type="COPY_ON_WRITE")
    replaced = load_timeline(table._opened.storage).completed(Action.REPLACECOMMIT)
    assert len(replaced) == 2
    assert table.verify() == []


@pytest.mark.parametrize("verb", ["insert_overwrite", "delete_partitions"])
def test_a_compaction_is_executed_without_the_groups_that_were_replaced_since(verb: str) -> None:
    table = _table(1, buckets=None)
    table.upsert(rows(("e", 1, "other")))
    table.upsert(rows(("a", 5, "d"), ("e", 5, "other")))
    at = table.schedule("compaction")
    assert at is not None
    if verb == "insert_overwrite":
        table.insert_overwrite(rows(("z", 1, "d")))
    else:
        table.delete_partitions(["d"])
    before = sorted(row["id"] for row in table.read().to_pylist())
    assert isinstance(table.execute(at), Committed)
    assert sorted(row["id"] for row in table.read().to_pylist()) == before
    assert table.verify() == []
