"""Slices: every log in exactly one, by completion time, in whatever order files come (R10)."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.view.files import BaseFile, FileGroup, LogFile
from lentic.view.slicing import BEGINNING, merge_order, slice_file_group
from tests.rfc.claims import says
from tests.unit.builders import GROUP, base_file, log_file, requested


def _slices(bases: list[BaseFile], logs: list[LogFile]) -> list[tuple[str, bool, list[LogFile]]]:
    group = slice_file_group(GROUP, bases, logs)
    assert group.id == GROUP
    assert all(part.group == GROUP for part in group.slices)
    return [(str(p.barrier), p.base is not None, list(p.logs)) for p in group.slices]


@says("rfc66.demo")
def test_the_demo_of_the_rfc() -> None:
    """RFC-66, appendix: l3 was requested before fg_t60 but completed after it, and follows it."""
    t10, t60 = base_file(10, 20), base_file(60, 80)
    l1, l2, l3 = log_file(21, 40), log_file(30, 50), log_file(35, 90)
    assert _slices([t10, t60], [l1, l2, l3]) == [
        (requested(60), True, [l3]),
        (requested(10), True, [l1, l2]),
    ]


def test_a_log_that_completed_at_the_barrier_belongs_to_it() -> None:
    """N3: no plan at t60 names it, so the slice that t60 opens must have it."""
    base, equal, before = base_file(60, 80), log_file(30, 60), log_file(31, 59)
    assert _slices([base_file(10, 20), base], [equal, before]) == [
        (requested(60), True, [equal]),
        (requested(10), True, [before]),
    ]


def test_it_is_the_barriers_request_that_counts_not_its_completion() -> None:
    """What completed while a compaction ran is not in its plan, so it lies on top of it."""
    during = log_file(61, 70)
    assert _slices([base_file(60, 80)], [during]) == [(requested(60), True, [during])]


@says("rfc66.slices.ids")
def test_a_group_without_a_base_file_is_one_slice_from_the_beginning() -> None:
    l1, l2 = log_file(10, 20), log_file(11, 19)
    assert _slices([], [l1, l2]) == [(BEGINNING, False, [l2, l1])]


def test_the_first_compaction_keeps_the_slice_it_was_made_from() -> None:
    """N5: the earliest logs match no base file, and are neither lost nor moved."""
    l1, l2, l3 = log_file(10, 20), log_file(11, 19), log_file(12, 40)
    assert _slices([base_file(30, 35)], [l1, l2, l3]) == [
        (requested(30), True, [l3]),
        (BEGINNING, False, [l2, l1]),
    ]


@says("rfc66.slices.newest", "rfc66.slices.ids")
def test_base_files_without_logs_are_slices_newest_first() -> None:
    assert _slices([base_file(10, 20), base_file(60, 80), base_file(30, 31)], []) == [
        (requested(60), True, []),
        (requested(30), True, []),
        (requested(10), True, []),
    ]


def test_nothing_makes_a_group_without_slices() -> None:
    assert slice_file_group(GROUP, [], []) == FileGroup(GROUP, ())


@says("rfc66.sort", "rfc66.slices.ascending", "R17")
def test_logs_merge_by_completion_then_request_then_version_then_token() -> None:
    """R17: completion decides, though Hudi's own order starts with the request."""
    order = [
        log_file(9, 20),
        log_file(1, 21),
        log_file(2, 21, version=1, token="0-0-0"),
        log_file(2, 21, version=1, token="0-0-1"),
        log_file(2, 21, version=2, token="0-0-0"),
        log_file(2, 21, version=10, token="0-0-0"),
        log_file(3, 21),
    ]
    shuffled = list(order)
    random.Random(1).shuffle(shuffled)
    assert _slices([], shuffled) == [(BEGINNING, False, order)]
    assert sorted(shuffled, key=merge_order) == order


def test_of_two_base_files_of_one_instant_the_greater_token_stays() -> None:
    first = base_file(10, 20)
    name = first.name
    second = BaseFile(
        first.path.replace("_0-0-0_", "_0-0-1_"),
        type(name)(name.file_id, "0-0-1", name.requested_at),
        100,
        first.completed_at,
    )
    for bases in ([first, second], [second, first]):
        (part,) = slice_file_group(GROUP, bases, []).slices
        assert part.base == second


TIMES = st.lists(st.integers(1, 60), unique=True, max_size=5)
LOGS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 30)), unique=True, max_size=12)


@says("rfc66.slices.one", "rfc66.slices.find")
@given(TIMES, LOGS, st.randoms(use_true_random=False))
@settings(max_examples=500, deadline=None)
def test_slices_partition_the_logs_as_a_naive_reading_of_the_rule_does(
    base_times: list[int], log_times: list[tuple[int, int]], chance: random.Random
) -> None:
    bases = [base_file(at, at + 5) for at in base_times]
    logs = [
        log_file(at, at + took, token=f"0-0-{number}")
        for number, (at, took) in enumerate(log_times)
    ]
    group = slice_file_group(
        GROUP, chance.sample(bases, len(bases)), chance.sample(logs, len(logs))
    )

    in_slices = [log for part in group.slices for log in part.logs]
    assert sorted(log.path for log in in_slices) == sorted(log.path for log in logs)
    assert sorted(p.base.path for p in group.slices if p.base) == sorted(b.path for b in bases)
    barriers = [str(part.barrier) for part in group.slices]
    assert barriers == sorted(set(barriers), reverse=True)

    home = {log.path: part for part in group.slices for log in part.logs}
    for (at, took), log in zip(log_times, logs, strict=True):
        reached = [time for time in base_times if time <= at + took]
        expected = requested(max(reached)) if reached else BEGINNING
        assert home[log.path].barrier == expected
        assert (home[log.path].base is None) == (not reached)
    for part in group.slices:
        keys = [
            (log.completed_at, log.name.requested_at, log.name.version, log.name.write_token)
            for log in part.logs
        ]
        assert [tuple(map(str, key)) for key in keys] == sorted(tuple(map(str, k)) for k in keys)
        assert part.base is not None or part.logs, "a slice has something in it"


@says("rfc66.plan.both")
@given(TIMES, LOGS, st.integers(1, 100))
@settings(max_examples=200, deadline=None)
def test_a_plan_and_the_slice_it_opens_share_the_logs_without_rest(
    base_times: list[int], log_times: list[tuple[int, int]], now: int
) -> None:
    """P5: what a compaction at `now` plans (completed before) and what lies on top of it."""
    bases = [base_file(at, at) for at in base_times if at < now]
    logs = [log_file(at, at + took, token=f"0-0-{n}") for n, (at, took) in enumerate(log_times)]
    planned = [log for log in logs if str(log.completed_at) < str(requested(now))]
    before = slice_file_group(GROUP, bases, planned)
    after = slice_file_group(GROUP, [*bases, base_file(now, now + 1)], logs)
    on_top = {log.path for log in after.latest.logs}
    assert on_top | {log.path for log in planned} == {log.path for log in logs}
    assert not on_top & {log.path for log in planned}
    assert after.slices[1:] == before.slices, "history does not change by compaction (P21)"
