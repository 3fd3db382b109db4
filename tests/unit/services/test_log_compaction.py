"""Log compaction on tables in memory: fewer blocks to merge, the same rows at every moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lentic.engine import LocalEngine
from lentic.errors import WriteConflict
from lentic.format.commit_metadata import LOG_COMPACT
from lentic.format.log_block import BlockKind, Header, decode_blocks
from lentic.format.names import Action, State
from lentic.format.plans import CompactionPlan, encode_compaction_plan
from lentic.format.removable import REMOVABLE_KEY
from lentic.format.times import RequestedAt
from lentic.ingest.flow import prepare
from lentic.services.compaction import schedule_compaction
from lentic.services.compaction_plan import plan_operation
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
from lentic.services.outcome import AlreadyCommitted, Committed
from lentic.services.schedule import planned_groups
from lentic.table import Table
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_commit_metadata, load_compaction_plan, load_timeline
from lentic.txn.transaction import transaction
from lentic.write.commit import begin_write
from lentic.write.operations import Operation, Request
from lentic.write.run import run_write
from tests.rfc.claims import says
from tests.unit.builders import SCHEMA, new_table, rows

ENGINE = LocalEngine(threads=1)
Rows = list[tuple[str, int, str]]


GROUPED = pa.schema([*SCHEMA, ("day2", pa.string())])


def make(
    ordering: str = "", threshold: int = 3, schema: pa.Schema = SCHEMA, **options: Any
) -> Table:
    given = {key.replace("__", "."): value for key, value in options.items()}
    given["hoodie.log.compaction.blocks.threshold"] = threshold
    return Table(new_table(ordering=ordering, buckets=1, schema=schema, options=given), ENGINE)


def schedule(table: Table, **how: Any) -> RequestedAt | None:
    return schedule_log_compaction(table._opened, **how)


def execute(table: Table, at: RequestedAt) -> Any:
    return execute_log_compaction(table._opened, ENGINE, at)


def log_compact(table: Table) -> RequestedAt:
    at = schedule(table)
    assert at is not None
    assert isinstance(execute(table, at), Committed)
    return at


def seen(table: Table, **question: Any) -> Rows:
    return sorted((r["id"], r["v"], r["day"]) for r in table.read(**question).to_pylist())


def seen_with_times(table: Table) -> list[tuple[Any, ...]]:
    names = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "v"]
    found = table.read(meta=True).select(names).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def moments(table: Table) -> list[str]:
    return [str(i.completed_at) for i in load_timeline(table._opened.storage).writes()]


def seen_always(table: Table) -> dict[str, Rows]:
    return {at: seen(table, as_of=at) for at in moments(table)}


def loaded(ordering: str = "", **options: Any) -> Table:
    """Three logs upon nothing: rows, an update with a late row, a delete."""
    table = make(ordering, **options)
    table.upsert(rows(("a", 5, "mon"), ("b", 5, "mon"), ("c", 5, "mon")))
    table.upsert(rows(("a", 6, "mon"), ("b", 4, "mon"), ("d", 1, "mon")))
    table.delete("id = 'c'")
    return table


ORDERINGS = pytest.mark.parametrize("ordering", ["", "v"])


@says("P21")
@ORDERINGS
def test_folded_logs_give_the_same_rows_at_every_moment(ordering: str) -> None:
    table = loaded(ordering)
    before, times = seen_always(table), seen_with_times(table)
    log_compact(table)
    after = seen_always(table)
    assert {at: after[at] for at in before} == before
    assert seen_with_times(table) == times, "every record keeps the time of its own write"
    assert seen(table) == before[max(before)]


@ORDERINGS
def test_the_log_that_folds_others_says_for_which_it_stands(ordering: str) -> None:
    table = loaded(ordering)
    storage = table._opened.storage
    folded = [str(i.requested_at) for i in load_timeline(storage).writes()]
    at = log_compact(table)
    instant = next(i for i in load_timeline(storage).writes() if i.requested_at == at)
    metadata = load_commit_metadata(storage, instant)
    assert (instant.action, metadata.operation, metadata.compacted) == (
        Action.DELTACOMMIT,
        LOG_COMPACT,
        True,
    )
    (stat,) = metadata.stats
    blocks = list(decode_blocks(storage.read(stat.path), stat.path))
    assert [block.kind for block in blocks] == [BlockKind.PARQUET, BlockKind.DELETE]
    times = {block.headers[Header.COMPACTED_BLOCK_TIMES] for block in blocks}
    assert times == {",".join(folded)}


def test_a_folded_table_has_no_changes_in_its_window() -> None:
    table = loaded()
    last = max(moments(table))
    log_compact(table)
    assert table.changes(after=last).num_rows == 0
    assert table.changes(after="000").num_rows == len(seen(table))
    assert table.changes(after=last, kind="cdc").num_rows == 0


@ORDERINGS
def test_chains_of_log_compactions_and_a_compaction_change_no_row(ordering: str) -> None:
    table = loaded(ordering)
    for number in range(3):
        log_compact(table)
        table.upsert(rows(("a", 3 + 2 * number, "mon"), ("c", number, "mon")))
        table.upsert(rows(("b", 9 - number, "mon"), ("e", number, "mon")))
        table.delete("id = 'd'")
    before = seen_always(table)
    log_compact(table)
    table.compact()
    assert {at: rows for at, rows in seen_always(table).items() if at in before} == before
    assert seen(table) == before[max(before)]


def test_a_slice_is_folded_again_only_after_enough_new_logs() -> None:
    table = loaded()
    log_compact(table)
    assert schedule(table) is None, "the log that folds the others is one"
    table.upsert(rows(("x", 1, "mon")))
    assert schedule(table) is None
    table.upsert(rows(("y", 1, "mon")))
    assert schedule(table) is not None


def test_a_log_that_completes_while_logs_are_folded_stays_above_them() -> None:
    table = loaded("")
    at = schedule(table)
    assert at is not None
    table.upsert(rows(("a", 100, "mon"), ("c", 100, "mon")))
    before = seen(table)
    execute(table, at)
    assert seen(table) == before
    table.upsert(rows(("z", 1, "mon")))
    log_compact(table)
    assert seen(table) == [*before, ("z", 1, "mon")]
    table.compact()
    assert seen(table) == [*before, ("z", 1, "mon")]


def test_a_group_is_in_one_pending_plan_at_most() -> None:
    table = loaded()
    opened = table._opened
    at = schedule(table)
    assert at is not None
    assert schedule_compaction(opened) is None, "its logs are about to be folded"
    assert schedule(table) == at
    execute(table, at)
    assert schedule_compaction(opened) is not None
    table.upsert(
        rows(("a", 7, "mon")),
    )
    table.upsert(rows(("a", 8, "mon")))
    assert schedule(table) is None, "its logs are about to be compacted"
    assert len(planned_groups(opened.storage, load_timeline(opened.storage))) == 1


def test_a_base_file_that_came_first_is_not_covered_by_old_rows() -> None:
    table = loaded()
    at = schedule(table)
    assert at is not None
    table.insert_overwrite(rows(("n", 1, "mon")))
    assert isinstance(execute(table, at), Committed)
    assert seen(table) == [("n", 1, "mon")]
    (done,) = [
        load_commit_metadata(table._opened.storage, i)
        for i in load_timeline(table._opened.storage).writes()
        if i.requested_at == at
    ]
    assert done.stats == (), "the plan is done with, without its only group"


def test_a_base_file_that_comes_while_logs_are_folded_makes_the_attempt_give_way() -> None:
    table = loaded()
    at = schedule(table)
    assert at is not None

    class Late(LocalEngine):
        def run(self, work: Any, tasks: Any, stage: Any = None) -> list[str]:
            texts = super().run(work, tasks, stage)
            table.insert_overwrite(rows(("n", 1, "mon")))
            return texts

    with pytest.raises(WriteConflict):
        execute_log_compaction(table._opened, Late(threads=1), at)
    assert seen(table) == [("n", 1, "mon")]
    assert isinstance(execute(table, at), Committed)
    assert seen(table) == [("n", 1, "mon")]


def test_a_plan_is_executed_once() -> None:
    table = loaded()
    at = log_compact(table)
    assert isinstance(execute(table, at), AlreadyCommitted)


@pytest.mark.parametrize(
    ("option", "asked", "is_removable"),
    [(False, None, False), (True, None, True), (False, True, True), (True, False, False)],
)
def test_a_plan_says_whether_it_is_removable(
    option: bool, asked: bool | None, is_removable: bool
) -> None:
    table = loaded(lentic__plan__removable=option)
    at = schedule(table, removable=asked)
    assert at is not None
    (plan,) = load_timeline(table._opened.storage).pending(Action.LOGCOMPACTION)
    assert plan.state is State.REQUESTED
    extra = load_compaction_plan(table._opened.storage, plan).extra
    assert extra.get(REMOVABLE_KEY) == ("true" if is_removable else None)


def test_nothing_is_planned_while_a_write_is_pending() -> None:
    """Apache Hudi would merge it below the log that folds others, though it completes later."""
    table = loaded()
    begun = begin_write(table._opened, Action.DELTACOMMIT)
    assert schedule(table) is None
    with transaction(table._opened) as txn:
        txn.remove(begun.instant)
    assert schedule(table) is not None


NON_BLOCKING = {"hoodie__write__concurrency__mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}


def begin(table: Table, *given: tuple[str, int, str]) -> Callable[[], object]:
    """A writer that does not see what completes from now on; what is returned finishes it."""
    opened, source = table._opened, rows(*given)
    prepared = prepare(opened, ENGINE, source, Request(Operation.UPSERT))
    begun = begin_write(opened, Action.DELTACOMMIT)
    return lambda: run_write(opened, ENGINE, source, prepared, begun)


@says("P22")
@pytest.mark.parametrize("completes", ["before the log compaction", "after it"])
def test_of_equal_orderings_the_write_that_completed_later_wins_whatever_was_folded(
    completes: str,
) -> None:
    """R17: completion decides, though the write was requested before the log compaction."""
    table = loaded("v", **NON_BLOCKING)
    finish = begin(table, ("a", 6, "mon"), ("b", 5, "mon"))
    times = {r["id"]: r["_hoodie_commit_time"] for r in table.read(meta=True).to_pylist()}
    at = schedule(table)
    assert at is not None
    if completes == "after it":
        execute(table, at)
    finish()
    if completes != "after it":
        execute(table, at)
    found = {r["id"]: r["_hoodie_commit_time"] for r in table.read(meta=True).to_pylist()}
    assert {key for key, time in found.items() if times[key] != time} == {"a", "b"}
    before = seen_with_times(table)
    table.upsert(rows(("x", 1, "mon")))
    table.delete("id = 'x'")
    log_compact(table)
    assert seen_with_times(table) == before, "folded with the log before it"
    table.compact()
    assert seen_with_times(table) == before


def test_slices_with_partial_rows_are_left_out_and_others_are_folded() -> None:
    table = loaded(schema=GROUPED)
    for number in range(3):
        table.upsert(rows(("t", number, "tue")))
    some = pa.table({"id": ["a"], "v": [50], "day": ["mon"]})
    table.upsert(some, partial=True)
    before = seen_always(table)
    at = schedule(table)
    assert at is not None
    (plan,) = load_timeline(table._opened.storage).pending(Action.LOGCOMPACTION)
    groups = load_compaction_plan(table._opened.storage, plan).groups()
    assert {partition for partition, _ in groups} == {"tue"}
    execute(table, at)
    assert {when: found for when, found in seen_always(table).items() if when in before} == before


def test_partial_rows_that_another_engine_planned_to_fold_are_left_as_they_are() -> None:
    table = loaded(schema=GROUPED)
    opened = table._opened
    table.upsert(pa.table({"id": ["a"], "v": [50], "day": ["mon"]}), partial=True)
    before = seen(table)
    plan = CompactionPlan(tuple(map(plan_operation, table.file_slices())))
    with transaction(opened) as txn:
        at = txn.request(Action.LOGCOMPACTION, encode_compaction_plan(plan)).requested_at
    execute(table, at)
    assert seen(table) == before
    assert len([log for part in table.file_slices() for log in part.logs if log.folds]) == 0


def test_a_table_with_column_groups_has_nothing_to_fold() -> None:
    table = make(threshold=2, lentic__partial__groups="v:day2", schema=GROUPED)
    for number in range(3):
        table.upsert(pa.table({"id": ["a"], "v": [number], "day": ["mon"], "day2": ["x"]}))
    assert schedule(table) is None


def test_deletes_keep_their_ordering_values() -> None:
    """A row that says it is deleted, late ones after it, and floats as ordering values."""
    fields = [("id", pa.string()), ("v", pa.float64()), ("day", pa.string())]
    schema = pa.schema([*fields, ("_hoodie_is_deleted", pa.bool_())])
    table = make("v", schema=schema)

    def put(*given: tuple[str, float, bool]) -> None:
        found = [
            {"id": key, "v": v, "day": "mon", "_hoodie_is_deleted": gone} for key, v, gone in given
        ]
        table.upsert(pa.Table.from_pylist(found, schema))

    put(("a", 1.5, False), ("b", -1.5, False), ("c", 0.0, False))
    put(("a", 2.5, True), ("b", -0.5, True), ("c", -0.0, True))
    put(("z", 1.0, False))
    log_compact(table)
    assert [row[0] for row in seen(table)] == ["c", "z"]
    put(("a", 2.0, False), ("b", -0.25, False))
    assert [row[0] for row in seen(table)] == ["b", "c", "z"], "what is late stays deleted"


def test_a_removable_plan_that_was_begun_is_not_handed_out_again() -> None:
    table = loaded()
    at = schedule(table, removable=True)
    assert at is not None
    assert schedule(table) == at
    with transaction(table._opened) as txn:
        txn.start(Instant(at, Action.LOGCOMPACTION, State.REQUESTED))
    assert schedule(table) is None
