"""Clustering plans, both ways; nothing they name lies outside the table or comes twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lentic.config.clustering import Curve
from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.avro import decode_container, encode_container
from lentic.format.cancellable import Cancellation
from lentic.format.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    SlicePlan,
    decode_clustering_claim,
    decode_clustering_plan,
    encode_clustering_plan,
    note_canceller,
    slice_metrics,
)

ROOT = "/data/t"
SLICE = SlicePlan("p/q", "fg-0", "p/q/fg-0_0-0-0_20260101000000001.parquet")
LOGGED = SlicePlan(
    "p/q",
    "fg-1",
    None,
    ("p/q/.fg-1_20260101000000002.log.1_0-0-0", "p/q/.fg-1_20260101000000003.log.1_0-0-0"),
)
TOP = SlicePlan("", "fg-2", "fg-2_0-0-0_20260101000000001.parquet")
PLAN = ClusteringPlan(
    groups=(
        ClusteringGroup((SLICE, LOGGED), 2, slice_metrics((3, 4), 5 << 20)),
        ClusteringGroup((TOP,), 1, slice_metrics((), 1)),
    ),
    sort_by=("a", "b"),
    curve=Curve.HILBERT,
    target_bytes=10_000,
    removable=True,
    params={"x": "y"},
    extra={"z": "1"},
)
CANCELLABLE = replace(PLAN, cancellation=Cancellation(cancellable=True))
WITHIN = replace(PLAN, stays=True)


@pytest.mark.parametrize(
    "plan", [PLAN, CANCELLABLE, WITHIN, ClusteringPlan(()), ClusteringPlan(PLAN.groups)]
)
@pytest.mark.parametrize("root", [ROOT, "s3://bucket/t"])
def test_a_plan_reads_back(plan: ClusteringPlan, root: str) -> None:
    data = encode_clustering_plan(plan, root)
    assert decode_clustering_plan(data, root, "f") == plan
    assert decode_clustering_claim(data, "f").groups == plan.file_groups()


def test_a_plan_says_what_hudi_needs_where_hudi_looks_for_it() -> None:
    record = decode_container(encode_clustering_plan(PLAN, ROOT), "f")
    assert record is not None and record["operationType"] == "CLUSTER"
    plan = record["clusteringPlan"]
    assert plan["preserveHoodieMetadata"] is True
    params = plan["strategy"]["strategyParams"]
    assert params["hoodie.clustering.plan.strategy.sort.columns"] == "a,b"
    assert params["hoodie.clustering.plan.strategy.target.file.max.bytes"] == "10000"
    assert plan["extraMetadata"]["lentic.plan.removable"] == "true"
    one, other = plan["inputGroups"][0]["slices"]
    assert one["dataFilePath"] == "/data/t/p/q/fg-0_0-0-0_20260101000000001.parquet"
    assert other["dataFilePath"] == "" and len(other["deltaFilePaths"]) == 2
    assert plan["inputGroups"][0]["numOutputFileGroups"] == 2
    assert plan["inputGroups"][0]["metrics"]["TOTAL_LOG_FILES_SIZE"] == 7.0


@pytest.mark.parametrize("plan", [CANCELLABLE, WITHIN])
def test_hudi_finds_no_file_of_a_plan_that_it_must_not_execute(plan: ClusteringPlan) -> None:
    """It executes what it can read, whatever strategy the plan names, cancelled or not."""
    record = decode_container(encode_clustering_plan(plan, ROOT), "f")
    assert record is not None
    groups = record["clusteringPlan"]["inputGroups"]
    slices = [part for group in groups for part in group["slices"]]
    paths = [path for part in slices for path in (part["dataFilePath"], *part["deltaFilePaths"])]
    assert [path for path in paths if path and "/executed-by-lentic-alone/" not in path] == []
    assert [(part["partitionPath"], part["fileId"]) for part in slices] == [
        ("p/q", "fg-0"), ("p/q", "fg-1"), ("", "fg-2"),
    ]  # fmt: skip


def first_slice(record: Any) -> Any:
    return record["clusteringPlan"]["inputGroups"][0]["slices"][0]


def twice(record: Any) -> None:
    record["clusteringPlan"]["inputGroups"] *= 2


def sets(**values: Any) -> Callable[[Any], None]:
    return lambda record: first_slice(record).update(values)


def no_plan(record: Any) -> None:
    record["clusteringPlan"] = None


def bad_curve(record: Any) -> None:
    record["clusteringPlan"]["extraMetadata"]["lentic.clustering.curve"] = "PEANO"


def bad_target(record: Any) -> None:
    key = "hoodie.clustering.plan.strategy.target.file.max.bytes"
    record["clusteringPlan"]["strategy"]["strategyParams"][key] = "-1"


def no_slices(record: Any) -> None:
    record["clusteringPlan"]["inputGroups"][0]["slices"] = []


@pytest.mark.parametrize(
    "spoil",
    [
        twice,
        no_plan,
        no_slices,
        bad_curve,
        bad_target,
        sets(dataFilePath="/elsewhere/p/q/fg-0_0-0-0_20260101000000001.parquet"),
        sets(dataFilePath="/data/t/../x/fg-0_0-0-0_20260101000000001.parquet"),
        sets(dataFilePath="/data/t/.hoodie/hoodie.properties"),
        sets(dataFilePath="/data/t/p/q/other_0-0-0_20260101000000001.parquet"),
        sets(dataFilePath="/data/t/p/fg-0_0-0-0_20260101000000001.parquet"),
        sets(dataFilePath="/data/t/p/q/README"),
        sets(dataFilePath="lentic:/executed-by-lentic-alone/../x/fg-0_0-0-0_2026.parquet"),
        sets(dataFilePath="lentic:/executed-by-lentic-alone-not/p/q/fg-0_0-0-0_2026.parquet"),
        sets(dataFilePath="lentic:/executed-by-lentic-alone/.hoodie/hoodie.properties"),
        sets(dataFilePath="", deltaFilePaths=[]),
        sets(partitionPath="p"),
        sets(fileId="fg-2"),
    ],
)
def test_a_plan_that_makes_no_sense_is_corrupt(spoil: Callable[[Any], None]) -> None:
    record = decode_container(encode_clustering_plan(PLAN, ROOT), "f")
    assert record is not None
    spoil(record)
    data = encode_container("HoodieRequestedReplaceMetadata", record)
    with pytest.raises(Corrupt) as raised:
        decode_clustering_plan(data, ROOT, "the file")
    assert raised.value.where == "the file"


@pytest.mark.parametrize(
    "spoil",
    [sets(bootstrapFilePath="/x"), lambda record: record["clusteringPlan"].update(version=2)],
)
def test_what_this_release_does_not_know_is_refused(spoil: Callable[[Any], None]) -> None:
    record = decode_container(encode_clustering_plan(PLAN, ROOT), "f")
    assert record is not None
    spoil(record)
    with pytest.raises(UnsupportedFormat):
        decode_clustering_plan(encode_container("HoodieRequestedReplaceMetadata", record), ROOT, "")


def test_which_groups_a_plan_is_for_is_known_wherever_the_table_was_moved() -> None:
    data = encode_clustering_plan(PLAN, "/before/t")
    assert decode_clustering_claim(data, "f").groups == PLAN.file_groups()
    with pytest.raises(Corrupt, match="no data file of the table"):
        decode_clustering_plan(data, ROOT, "f")


@pytest.mark.parametrize("plan", [PLAN, CANCELLABLE, WITHIN])
def test_an_aborted_plan_is_as_it_was_and_says_who_cancelled_it_and_why(
    plan: ClusteringPlan,
) -> None:
    noted = note_canceller(encode_clustering_plan(plan, ROOT), "f", "host:1", "too late")
    found = decode_clustering_plan(noted, ROOT, "f")
    assert (found.cancellation.by, found.cancellation.why) == ("host:1", "too late")
    assert replace(found, cancellation=plan.cancellation) == plan
    assert decode_clustering_plan(encode_clustering_plan(found, ROOT), ROOT, "f") == found
    assert decode_clustering_claim(noted, "f").cancellation == found.cancellation


@pytest.mark.parametrize("data", [b"", b"no plan"])
def test_what_does_not_read_is_left_as_it_is(data: bytes) -> None:
    assert note_canceller(data, "f", "host:1", "too late") == data


def test_an_empty_file_is_no_plan() -> None:
    for decode in (
        lambda d: decode_clustering_plan(d, ROOT, ""),
        lambda d: decode_clustering_claim(d, ""),
    ):
        with pytest.raises(Corrupt):
            decode(b"")
