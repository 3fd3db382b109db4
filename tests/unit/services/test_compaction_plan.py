"""When a compaction is due, and what each strategy takes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
from lentic.config.services import CompactionOptions, CompactionStrategy, Trigger
from lentic.format.names import Action, State
from lentic.format.times import Zone, parse_epoch_ms
from lentic.services.compaction_plan import is_compaction_due, plan_compaction
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from lentic.view.files import FileGroup, FileGroupId, FileSlice
from tests.unit.builders import base_file, completed, log_file, requested, time

MB = 1024 * 1024
DEFAULTS = CompactionOptions.parse(resolve({}, REGISTRY))
LOG_SIZE, BOUNDED_IO, ALL, DAY_BASED = CompactionStrategy


def group(
    name: str, *, base_mb: float | None = 1, logs_mb: tuple[float, ...] = (1,), since: int = 2
) -> FileGroup:
    """A group in the partition before the dash of its name, whose first log completed `since`."""
    partition = name.partition("-")[0]
    base = base_file(1, 2, file_id=name, partition=partition) if base_mb is not None else None
    logs = [
        log_file(since + n, since + n + 1, file_id=name, partition=partition)
        for n in range(len(logs_mb))
    ]
    part = FileSlice(
        group=FileGroupId(partition, name),
        barrier=requested(1),
        base=replace(base, size=round((base_mb or 0) * MB)) if base else None,
        logs=tuple(
            replace(log, size=round(mb * MB)) for log, mb in zip(logs, logs_mb, strict=True)
        ),
    )
    return FileGroup(part.group, (part,))


def chosen(groups: list[FileGroup], **options: object) -> list[str]:
    plan = plan_compaction(groups, replace(DEFAULTS, **options))
    return [operation.file_id for operation in plan.operations]


SMALL = group("a-1", logs_mb=(1,), since=30)
LARGE = group("b-1", logs_mb=(9,), since=20)
MIDDLE = group("c-1", logs_mb=(2, 3), since=10)
BARE = group("c-2", base_mb=None, logs_mb=(4,), since=40)
QUIET = group("d-1", logs_mb=())
EVERY = [SMALL, LARGE, MIDDLE, BARE, QUIET]


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        (LOG_SIZE, ["b-1", "c-1", "c-2", "a-1"]),
        (BOUNDED_IO, ["c-1", "b-1", "a-1", "c-2"]),
        (ALL, ["a-1", "b-1", "c-1", "c-2"]),
        (DAY_BASED, ["c-1", "c-2", "b-1", "a-1"]),
    ],
)
def test_a_strategy_takes_all_slices_with_logs_in_its_order(
    strategy: CompactionStrategy, order: list[str]
) -> None:
    assert chosen(EVERY, strategy=strategy) == order


@pytest.mark.parametrize(
    ("strategy", "io_mb", "taken"),
    [
        # What they cost: a-1 1+1+1, b-1 1+9+1, c-1 1+5+1, c-2 4+4.
        (LOG_SIZE, 1, ["b-1"]),
        (LOG_SIZE, 17, ["b-1"]),
        (LOG_SIZE, 18, ["b-1", "c-1"]),
        (BOUNDED_IO, 18, ["c-1", "b-1"]),
        (BOUNDED_IO, 28, ["c-1", "b-1", "a-1"]),
        (DAY_BASED, 15, ["c-1", "c-2"]),
        (ALL, 1, ["a-1", "b-1", "c-1", "c-2"]),
    ],
)
def test_the_limit_is_kept_but_for_the_first_slice(
    strategy: CompactionStrategy, io_mb: int, taken: list[str]
) -> None:
    assert chosen(EVERY, strategy=strategy, io_mb=io_mb) == taken


@pytest.mark.parametrize("strategy", CompactionStrategy)
def test_slices_below_a_threshold_are_left_alone(strategy: CompactionStrategy) -> None:
    assert sorted(chosen(EVERY, strategy=strategy, log_bytes=4 * MB)) == ["b-1", "c-1", "c-2"]
    assert chosen(EVERY, strategy=strategy, log_files=2) == ["c-1"]
    assert chosen(EVERY, strategy=strategy, log_files=2, log_bytes=6 * MB) == []


def test_day_based_takes_the_newest_partitions_only() -> None:
    assert chosen(EVERY, strategy=DAY_BASED, days=1) == ["c-1", "c-2"]
    assert chosen(EVERY, strategy=DAY_BASED, days=2) == ["c-1", "c-2", "b-1"]


def test_a_group_that_a_plan_names_is_left_out() -> None:
    plan = plan_compaction(EVERY, DEFAULTS, planned={("b", "b-1"), ("c", "c-1")})
    assert [op.file_id for op in plan.operations] == ["c-2", "a-1"]


def test_the_figures_of_a_plan_are_those_that_hudi_computes() -> None:
    big = group("x-1", base_mb=10.9, logs_mb=(1.5, 2.5))
    first = group("y-1", base_mb=None, logs_mb=(0.5,))
    plan = plan_compaction([big, first], DEFAULTS)
    assert [dict(op.metrics) for op in plan.operations] == [
        {
            "TOTAL_LOG_FILES": 2.0,
            "TOTAL_LOG_FILES_SIZE": 4.0 * MB,
            "TOTAL_IO_READ_MB": 14.0,
            "TOTAL_IO_WRITE_MB": 10.0,
            "TOTAL_IO_MB": 24.0,
        },
        {
            "TOTAL_LOG_FILES": 1.0,
            "TOTAL_LOG_FILES_SIZE": 0.5 * MB,
            "TOTAL_IO_READ_MB": 0.0,
            "TOTAL_IO_WRITE_MB": 120.0,
            "TOTAL_IO_MB": 120.0,
        },
    ]


def done(action: Action, at: int, upto: int) -> Instant:
    return Instant(requested(at), action, State.COMPLETED, completed(upto))


COMMITS = [done(Action.DELTACOMMIT, n, n + 1) for n in (1, 3, 5)]
COMPACTION = done(Action.COMMIT, 7, 9)
AFTER = [done(Action.DELTACOMMIT, 10, 11), done(Action.DELTACOMMIT, 12, 13)]
OVERLAPPING = done(Action.DELTACOMMIT, 6, 8)
PENDING = Instant(requested(20), Action.DELTACOMMIT, State.INFLIGHT)


@pytest.mark.parametrize(
    ("instants", "trigger", "commits", "seconds", "waited_ms", "expected"),
    [
        ([], Trigger.NUM_OR_TIME, 1, 1, 10**9, False),
        (COMMITS, Trigger.NUM_COMMITS, 3, 1, 0, True),
        (COMMITS, Trigger.NUM_COMMITS, 4, 1, 10**9, False),
        ([*COMMITS, PENDING], Trigger.NUM_COMMITS, 4, 1, 0, False),
        ([*COMMITS, COMPACTION], Trigger.NUM_COMMITS, 1, 1, 0, False),
        ([*COMMITS, COMPACTION, *AFTER], Trigger.NUM_COMMITS, 2, 1, 0, True),
        ([*COMMITS, COMPACTION, *AFTER], Trigger.NUM_COMMITS, 3, 1, 0, False),
        # Completed after the compaction was planned: its log is not in the base file.
        ([*COMMITS, OVERLAPPING, COMPACTION], Trigger.NUM_COMMITS, 1, 1, 0, True),
        (COMMITS, Trigger.TIME_ELAPSED, 99, 60, 59_999, False),
        (COMMITS, Trigger.TIME_ELAPSED, 99, 60, 60_000, True),
        ([*COMMITS, COMPACTION], Trigger.TIME_ELAPSED, 1, 60, 10**9, False),
        ([*COMMITS, COMPACTION, *AFTER], Trigger.TIME_ELAPSED, 99, 60, 60_000, False),
        ([*COMMITS, COMPACTION, *AFTER], Trigger.TIME_ELAPSED, 99, 60, 60_006, True),
        (COMMITS, Trigger.NUM_AND_TIME, 3, 60, 59_999, False),
        (COMMITS, Trigger.NUM_AND_TIME, 4, 60, 60_000, False),
        (COMMITS, Trigger.NUM_AND_TIME, 3, 60, 60_000, True),
        (COMMITS, Trigger.NUM_OR_TIME, 4, 60, 59_999, False),
        (COMMITS, Trigger.NUM_OR_TIME, 3, 60, 0, True),
        (COMMITS, Trigger.NUM_OR_TIME, 4, 60, 60_000, True),
        (COMMITS, Trigger.TIME_ELAPSED, 1, 60, -10_000, False),
    ],
)
def test_a_compaction_is_due_when_its_trigger_says_so(
    instants: list[Instant],
    trigger: Trigger,
    commits: int,
    seconds: int,
    waited_ms: int,
    expected: bool,
) -> None:
    options = replace(DEFAULTS, trigger=trigger, trigger_commits=commits, trigger_seconds=seconds)
    now_ms = parse_epoch_ms(time(1), Zone.UTC) + waited_ms
    due = is_compaction_due(Timeline(tuple(instants)), options, now_ms, Zone.UTC)
    assert due is expected
