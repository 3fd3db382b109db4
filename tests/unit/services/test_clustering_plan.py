"""Which slices a clustering takes on: partitions by a filter, small slices, groups by size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lentic.config.clustering import ClusteringOptions, Curve
from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
from lentic.format.cancellable import Cancellation, group_key
from lentic.format.clustering_plan import ClusteringPlan
from lentic.format.times import RequestedAt
from lentic.services.clustering_plan import ClusteringQuestion, choose_partitions, plan_clustering
from lentic.view.files import FileGroup, FileGroupId, FileSlice
from tests.unit.builders import base_file, log_file

PREFIX = "hoodie.clustering.plan."
DAYS = [f"2026-01-{day:02}" for day in range(1, 31)]
NOON = RequestedAt("20260101120000000")
ASKED = ClusteringQuestion(NOON)


def options(**given: Any) -> ClusteringOptions:
    keys = {PREFIX + key.replace("__", "."): value for key, value in given.items()}
    return ClusteringOptions.parse(resolve(keys, REGISTRY))


def group(file_id: str, size: int, partition: str = "p", logs: int = 0) -> FileGroup:
    """A group whose slice has `size` bytes: ten in each log, the rest in its base file."""
    base = replace(base_file(1, 2, file_id=file_id, partition=partition), size=size - 10 * logs)
    found = [log_file(3 + n, 4 + n, file_id=file_id, partition=partition) for n in range(logs)]
    id = FileGroupId(partition, file_id)
    return FileGroup(id, (FileSlice(id, base.name.requested_at, base, tuple(found)),))


def planned(plan: ClusteringPlan) -> list[list[str]]:
    return [[part.file_id for part in one.slices] for one in plan.groups]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, DAYS),
        ({"partition__filter__mode": "RECENT_DAYS"}, ["2026-01-30", "2026-01-29"]),
        (
            {
                "partition__filter__mode": "RECENT_DAYS",
                "strategy__daybased__skipfromlatest__partitions": 3,
                "strategy__daybased__lookback__partitions": 1,
            },
            ["2026-01-27"],
        ),
        (
            {
                "partition__filter__mode": "SELECTED_PARTITIONS",
                "strategy__cluster__begin__partition": "2026-01-05",
                "strategy__cluster__end__partition": "2026-01-07",
            },
            ["2026-01-05", "2026-01-06", "2026-01-07"],
        ),
        (
            {
                "partition__filter__mode": "SELECTED_PARTITIONS",
                "strategy__cluster__begin__partition": "2026-01-29",
            },
            ["2026-01-29", "2026-01-30"],
        ),
        ({"partition__filter__mode": "DAY_ROLLING"}, ["2026-01-07"]),
        ({"strategy__partition__selected": "2026-01-03,nope"}, ["2026-01-03"]),
        ({"strategy__partition__regex__pattern": ".*-1[01]"}, ["2026-01-10", "2026-01-11"]),
        ({"strategy__partition__regex__pattern": "-10"}, []),
    ],
    ids=str,
)
def test_partitions_are_chosen(given: dict[str, Any], expected: list[str]) -> None:
    assert choose_partitions(reversed(DAYS), options(**given), ASKED) == expected


def test_every_partition_has_its_hour() -> None:
    rolling = options(partition__filter__mode="DAY_ROLLING")
    hours = [replace(ASKED, at=RequestedAt(f"20260101{hour:02}0000000")) for hour in range(24)]
    chosen = [name for asked in hours for name in choose_partitions(DAYS, rolling, asked)]
    assert sorted(chosen) == DAYS


def test_partitions_that_are_named_are_taken_whatever_the_filter() -> None:
    recent = options(partition__filter__mode="RECENT_DAYS")
    asked = replace(ASKED, partitions=("2026-01-02", "nope"))
    assert choose_partitions(DAYS, recent, asked) == ["2026-01-02"]


def test_small_slices_are_packed_largest_first_up_to_the_size_of_a_group() -> None:
    limits = options(
        strategy__small__file__limit=1_000,
        strategy__max__bytes__per__group=1_100,
        strategy__target__file__max__bytes=1_024,
    )
    groups = [
        group("a", 100),
        group("b", 900, logs=2),
        group("large", 1_000),
        group("c", 500),
        group("d", 600),
        group("e", 300, partition="q"),
    ]
    plan = plan_clustering(groups, limits, ASKED)
    assert planned(plan) == [["b"], ["d", "c"], ["a"], ["e"]]
    assert [one.outputs for one in plan.groups] == [1, 2, 1, 1]
    assert plan.groups[0].metrics["TOTAL_LOG_FILES"] == 2.0
    assert {part.partition for part in plan.groups[3].slices} == {"q"}
    assert plan.target_bytes == 1_024 and plan.curve is None
    few = replace(limits, groups=2)
    assert planned(plan_clustering(groups, few, ASKED)) == [["b"], ["d", "c"]]
    alone = replace(limits, takes_single=False)
    assert planned(plan_clustering(groups, alone, ASKED)) == [["d", "c"]]
    sorting = replace(ASKED, sort_by=("v",), curve=Curve.ZORDER)
    assert planned(plan_clustering(groups, alone, sorting)) == planned(plan)
    assert plan_clustering(groups, alone, sorting).curve is Curve.ZORDER


def test_what_another_plan_names_is_left_out() -> None:
    groups = [group("a", 100), group("b", 100), group("b", 100, partition="q")]
    asked = replace(ASKED, busy=frozenset({("p", "b")}))
    assert planned(plan_clustering(groups, options(), asked)) == [["a"], ["b"]]


def cancelled(*file_ids: str, times: int = 1) -> ClusteringQuestion:
    counts = {group_key("p", file_id): times for file_id in file_ids}
    return replace(ASKED, cancellation=Cancellation(cancelled=counts))


@pytest.mark.parametrize(
    ("single", "expected"), [("true", [["a", "b"], ["c"]]), ("false", [["a", "b"]])]
)
def test_a_partition_that_is_packed_smaller_because_it_was_cancelled_comes_again(
    single: str, expected: list[list[str]]
) -> None:
    limits = options(
        strategy__max__bytes__per__group=1_024,
        strategy__single__group__clustering__enabled=single,
    )
    groups = [group(file_id, 300) for file_id in "abc"]
    whole = plan_clustering(groups, limits, ASKED)
    assert planned(whole) == [["a", "b", "c"]] and whole.missing == ()
    halved = plan_clustering(groups, replace(limits, groups=60), cancelled("a"))
    assert planned(halved) == expected and halved.missing == ("p",)


def test_a_cancelled_partition_that_fits_all_the_same_is_done_with() -> None:
    groups = [group(file_id, 100) for file_id in "abc"]
    plan = plan_clustering(groups, options(strategy__max__bytes__per__group=1_024), cancelled("a"))
    assert planned(plan) == [["a", "b", "c"]] and plan.missing == ()


def test_in_buckets_small_groups_are_as_good_as_large_ones() -> None:
    groups = [group(file_id, 300) for file_id in "abc"]
    asked = replace(cancelled("a"), is_bucketed=True, sort_by=("v",))
    plan = plan_clustering(groups, options(strategy__max__bytes__per__group=1_024), asked)
    assert planned(plan) == [["a", "b"], ["c"]] and plan.missing == ()


def test_a_slice_that_was_left_alone_may_go_with_what_becomes_of_the_others() -> None:
    limits = options(
        strategy__max__bytes__per__group=1_024,
        strategy__single__group__clustering__enabled="false",
    )
    groups = [group("a", 600), group("b", 400), group("c", 300)]
    plan = plan_clustering(groups, limits, ASKED)
    assert planned(plan) == [["a", "b"]] and plan.missing == ("p",)
    alone = plan_clustering(groups[2:], limits, ASKED)
    assert planned(alone) == [] and alone.missing == ()
    # Where as many come out as went in nobody is nearer to anything.
    many = plan_clustering([group("c", 300), group("d", 800)], limits, ASKED)
    assert planned(many) == [] and many.missing == ()
    rising = plan_clustering(groups, replace(limits, target_bytes=500), ASKED)
    assert rising.groups[0].outputs == 2 and rising.missing == ()


def test_in_buckets_there_is_only_something_to_sort() -> None:
    bucketed = replace(ASKED, is_bucketed=True)
    assert plan_clustering([group("a", 1)], options(), bucketed).groups == ()
    sorting = replace(bucketed, sort_by=("v",))
    assert planned(plan_clustering([group("a", 1)], options(), sorting)) == [["a"]]


def test_a_plan_does_not_depend_on_the_order_of_groups() -> None:
    groups = [group(name, 100) for name in "abcd"]
    assert plan_clustering(groups, options(), ASKED) == plan_clustering(
        groups[::-1], options(), ASKED
    )
