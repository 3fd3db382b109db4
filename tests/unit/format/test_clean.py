"""Clean plans and clean metadata, both ways, and what they must not name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.avro import decode_container, encode_container
from lentic.format.clean import (
    CleanMetadata,
    CleanPlan,
    decode_clean_metadata,
    decode_clean_plan,
    encode_clean_metadata,
    encode_clean_plan,
)
from lentic.format.names import Action
from lentic.format.plan_inputs import decode_clustering_inputs
from lentic.format.times import RequestedAt

T = RequestedAt("20261115095731323")
FILES = (f"p0/f-0_0-0-0_{T}.parquet", f"p0/.f-0_{T}.log.1_0-0-0", f"g-0_0-0-0_{T}.parquet")
PLAN = CleanPlan(
    policy="KEEP_LATEST_COMMITS",
    files=FILES,
    retained=(T, Action.DELTACOMMIT),
    last_completed=T,
    partitions=("p1",),
    extra={"savepointed_timestamps": str(T)},
)
DONE = CleanMetadata(T, "KEEP_LATEST_COMMITS", FILES, (), T, T, ("p1",), 7, {"a": "b"})


@pytest.mark.parametrize("plan", [PLAN, CleanPlan("KEEP_LATEST_FILE_VERSIONS", FILES[:1])])
@pytest.mark.parametrize("root", ["/data/t", "s3://bucket/t"])
def test_a_plan_comes_back_as_it_was(plan: CleanPlan, root: str) -> None:
    assert decode_clean_plan(encode_clean_plan(plan, root), root, "x") == plan


@pytest.mark.parametrize(
    ("written", "read"), [("/data/t", "file:///data/t"), ("s3a://bucket/t", "s3://bucket/t/")]
)
def test_a_plan_reads_however_the_root_is_spelled(written: str, read: str) -> None:
    assert decode_clean_plan(encode_clean_plan(PLAN, written), read, "x") == PLAN


def test_metadata_comes_back_as_it_was() -> None:
    for done in (DONE, replace(DONE, retained=None, failed=("p2/x.parquet",), partitions=())):
        assert decode_clean_metadata(encode_clean_metadata(done), "x") == done


def plan_with(**fields: object) -> bytes:
    record = decode_container(encode_clean_plan(PLAN, "/data/t"), "x")
    assert record is not None
    return encode_container("HoodieCleanerPlan", record | fields)


@pytest.mark.parametrize(
    "location",
    [
        "",
        f"/data/other/f_0-0-0_{T}.parquet",
        f"/data/t/../f_0-0-0_{T}.parquet",
        "/data/t/.hoodie/hoodie.properties",
        f"/data/t/.hoodie/f_0-0-0_{T}.parquet",
        "/data/t/p0/.hoodie_partition_metadata",
        "/data/t/p0",
    ],
)
def test_a_plan_names_only_data_files_of_the_table(location: str) -> None:
    files = {"p0": [{"filePath": location, "isBootstrapBaseFile": False}]}
    with pytest.raises(Corrupt, match="no data file"):
        decode_clean_plan(plan_with(filePathsToBeDeletedPerPartition=files), "/data/t", "x")


@pytest.mark.parametrize("partition", ["../p", ".hoodie", "/p", "a//b"])
def test_a_plan_names_only_partitions_of_the_table(partition: str) -> None:
    with pytest.raises(Corrupt, match="no partition"):
        decode_clean_plan(plan_with(partitionsToBeDeleted=[partition]), "/data/t", "x")


def test_a_plan_of_another_version_or_with_bootstrapped_files_is_refused() -> None:
    with pytest.raises(UnsupportedFormat, match="version 1"):
        decode_clean_plan(plan_with(version=1), "/data/t", "x")
    files = {"p0": [{"filePath": "/elsewhere/x.parquet", "isBootstrapBaseFile": True}]}
    with pytest.raises(UnsupportedFormat, match="bootstrapped"):
        decode_clean_plan(plan_with(filePathsToBeDeletedPerPartition=files), "/data/t", "x")


def test_what_is_no_plan_is_corrupt() -> None:
    retained = {"timestamp": str(T), "action": "dance", "state": "COMPLETED"}
    for data in (b"", encode_clean_metadata(DONE), plan_with(earliestInstantToRetain=retained)):
        with pytest.raises(Corrupt):
            decode_clean_plan(data, "/data/t", "x")
    with pytest.raises(Corrupt):
        decode_clean_metadata(b"", "x")


def test_metadata_that_names_a_path_for_a_file_is_corrupt() -> None:
    record = decode_container(encode_clean_metadata(DONE), "x")
    assert record is not None
    record["partitionMetadata"]["p0"]["successDeleteFiles"] = ["../../x"]
    with pytest.raises(Corrupt):
        decode_clean_metadata(encode_container("HoodieCleanMetadata", record), "x")


def clustering(partition: str, *locations: str | None) -> bytes:
    base, *logs = locations
    part = {
        "dataFilePath": base,
        "deltaFilePaths": logs,
        "fileId": "f",
        "partitionPath": partition,
    }
    plan = {"inputGroups": [{"slices": [part]}]}
    return encode_container("HoodieRequestedReplaceMetadata", {"clusteringPlan": plan})


def test_the_inputs_of_a_clustering_plan_are_told_wherever_the_table_lies() -> None:
    data = clustering("p0", "file:/moved/t/p0/f_0-0-0_1.parquet", "/moved/t/p0/.f_1.log.1_0-0-0")
    assert decode_clustering_inputs(data, "x") == {"p0/f_0-0-0_1.parquet", "p0/.f_1.log.1_0-0-0"}
    assert decode_clustering_inputs(clustering("", None, "/t/l"), "x") == {"l"}
    assert decode_clustering_inputs(b"", "x") == frozenset()
    with pytest.raises(Corrupt):
        decode_clustering_inputs(clustering("..", "/t/x"), "x")
