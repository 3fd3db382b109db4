"""Why a small file stays small: each reason is brought about and read (R41)."""

from __future__ import annotations

from typing import Any

import pytest

from lentic.insight.answers import Answer
from tests.unit.builders import rows
from tests.unit.insight.cases import Case, says, typed
from tests.unit.verbs import COW, MOR


def _bulk(case: Case, *days: str) -> None:
    """One small file for each day given: bulk inserts never fill files up."""
    for number, day in enumerate(days):
        case.table.bulk_insert(rows((f"{day}{number}", number, day)))


def _first(case: Case, day: str = "d") -> Answer:
    part = min(case.table.file_slices(day), key=lambda part: part.group.file_id)
    assert part.base is not None
    return case.why(part.base.path)


def test_a_file_above_the_limit_is_not_small() -> None:
    case = Case(options={"hoodie.parquet.small.file.limit": 10})
    _bulk(case, "d")
    assert "hoodie.parquet.small.file.limit=10" in says(_first(case), "not-small")


@pytest.mark.parametrize("kind", [COW, MOR])
def test_in_buckets_rows_may_not_move(kind: str) -> None:
    case = Case(kind, buckets=4)
    case.write("a")
    if kind == MOR:
        case.table.compact()
    answer = _first(case)
    assert "4 buckets" in says(answer, "small-bucketed")
    assert not typed(answer), "nothing to be done about it"


def test_one_in_a_pending_plan_is_left_be() -> None:
    case = Case()
    _bulk(case, "d", "d")
    plan = case.table.schedule("clustering")
    answer = _first(case)
    assert f"clustering {plan}" in says(answer, "small-planned")
    assert typed(answer) == [f't.execute("{plan}")']
    case.table.request_cancel(str(plan))
    answer = _first(case)
    assert "cancelled, not yet aborted" in says(answer, "small-planned")
    assert typed(answer) == [f't.execute_abort("{plan}")']


def test_one_without_logs_waits_for_new_keys() -> None:
    case = Case()
    _bulk(case, "d")
    assert "new keys in partition d" in says(_first(case), "small-waits")
    case.write("new")
    assert len(case.table.file_slices()) == 1, "they went there indeed"


def test_one_with_logs_waits_for_a_compaction() -> None:
    case = Case(MOR)
    case.write("a")
    case.write("a", value=2)
    answer = _first(case)
    assert "a compaction comes first" in says(answer, "small-has-logs")
    assert "t.compact()" in typed(answer)


def test_where_writes_are_told_never_to_fill_files_up_it_says_so() -> None:
    case = Case(options={"hoodie.parquet.small.file.limit": 0})
    _bulk(case, "d")
    assert "hoodie.parquet.small.file.limit=0" in says(_first(case), "small-limit-off")


def test_one_that_is_alone_in_its_partition_has_nothing_to_merge_with() -> None:
    case = Case()
    _bulk(case, "d", "e")
    assert "nothing to merge it with" in says(_first(case), "small-alone")


def test_a_partition_that_the_filter_leaves_out_is_told() -> None:
    options = {"hoodie.clustering.plan.strategy.partition.selected": "e"}
    case = Case(options=options)
    _bulk(case, "d", "d")
    assert "leaves partition 'd' out" in says(_first(case), "small-partition-filter")


def test_one_that_clustering_does_not_call_small_says_its_limit() -> None:
    case = Case(options={"hoodie.clustering.plan.strategy.small.file.limit": 10})
    _bulk(case, "d", "d")
    said = says(_first(case), "small-above-clustering")
    assert "hoodie.clustering.plan.strategy.small.file.limit=10" in said


def test_where_nobody_clusters_the_options_are_named_and_the_command() -> None:
    case = Case()
    _bulk(case, "d", "d")
    answer = _first(case)
    assert "hoodie.clustering.inline" in says(answer, "small-no-clustering")
    assert typed(answer) == ["t.cluster()"]
    case.table.cluster()
    assert len(case.table.file_slices()) == 1


def test_one_beyond_the_limit_of_a_plan_comes_later() -> None:
    options: dict[str, Any] = {
        "hoodie.clustering.plan.strategy.max.num.groups": 1,
        "hoodie.clustering.plan.strategy.max.bytes.per.group": 5_000,
    }
    case = Case(options=options)
    _bulk(case, *("d" * 4))
    parts = [part.base.path for part in case.table.file_slices() if part.base]
    said = [case.why(path) for path in parts]
    assert [answer.has("small-plan-limit") for answer in said].count(True) == 2
    (later, *_) = [answer for answer in said if answer.has("small-plan-limit")]
    assert "comes later" in says(later, "small-plan-limit")


@pytest.mark.parametrize("mode", ["RECENT_DAYS", "DAY_ROLLING"])
def test_a_filter_that_looks_at_other_partitions_knows_them_from_the_timeline(mode: str) -> None:
    options: dict[str, Any] = {
        "hoodie.clustering.plan.partition.filter.mode": mode,
        "hoodie.clustering.plan.strategy.daybased.lookback.partitions": 1,
    }
    case = Case(options=options)
    _bulk(case, "d", "d", "e", "e")
    assert mode in says(_first(case, "d"), "small-partition-filter")
    assert _first(case, "e").has("small-partition-filter") == (mode == "DAY_ROLLING")


@pytest.mark.parametrize(
    ("commits", "code"), [(9, "small-clustering-not-due"), (2, "small-next-clustering")]
)
def test_where_clustering_runs_by_itself_it_says_when(commits: int, code: str) -> None:
    case = Case()
    _bulk(case, "d", "d")
    options = {
        "hoodie.clustering.schedule.inline": True,
        "hoodie.clustering.inline.max.commits": commits,
    }
    assert says(_first(case.reopened(options)), code)


def test_one_whose_clusterings_were_cancelled_says_how_often() -> None:
    case = Case()
    _bulk(case, "d", "d")
    for _ in range(2):
        at = str(case.table.schedule("clustering"))
        case.table.request_cancel(at)
        case.table.execute_abort(at)
    said = says(_first(case), "small-cancelled")
    assert said == "the last 2 clustering(s) for it were cancelled", "by hand: no write came first"
