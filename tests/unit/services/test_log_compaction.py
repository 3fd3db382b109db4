"""Log compaction on tables in memory: fewer blocks to merge, the same rows at every moment."""

from __future__ import annotations

from typing import Any

import pytest

from lentic.engine import LocalEngine
from lentic.errors import WriteConflict
from lentic.format.commit_metadata import LOG_COMPACT
from lentic.format.log_block import BlockKind, Header, decode_blocks
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt
from lentic.services.compaction import schedule_compaction
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
from lentic.services.log_compaction_plan import REMOVABLE
from lentic.services.outcome import AlreadyCommitted, Committed
from lentic.services.schedule import planned_groups
from lentic.table import Table
from lentic.timeline.reader import load_commit_metadata, load_compaction_plan, load_timeline
from tests.unit.builders import new_table, rows

ENGINE = LocalEngine(threads=1)
Rows = list[tuple[str, int, str]]


def make(ordering: str = "", threshold: int = 3, **options: Any) -> Table:
    given = {key.replace("__", "."): value for key, value in options.items()}
    given["hoodie.log.compaction.blocks.threshold"] = threshold
    return Table(new_table(ordering=ordering, buckets=1, options=given), ENGINE)


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
    assert extra == ({REMOVABLE: "true"} if is_removable else {})
