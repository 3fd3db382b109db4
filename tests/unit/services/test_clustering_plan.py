"""Which slices a clustering takes on: partitions by a filter, small slices, groups by size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lentic.config.clustering import ClusteringOptions, Curve
from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
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
