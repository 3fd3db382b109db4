"""Clusterings that Apache Hudi planned: we read their plans, and execute them as Hudi did."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lentic
from lentic.engine import LocalEngine
from lentic.format import layout
from lentic.format.avro import decode_container
from lentic.format.clustering_plan import decode_clustering_plan, encode_clustering_plan
from lentic.format.names import Action, State
from lentic.format.properties import decode_properties, encode_properties
from lentic.format.record_fields import FILE_NAME
from lentic.services.clustering import execute_clustering
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_commit_metadata, load_timeline

TABLES = pytest.mark.parametrize("name", ["cow_cluster", "mor_cluster"])


def made_at(name: str) -> str:
    return f"/data/lakehouse/tbl/{name}"


def plan_file(table: Path) -> Path:
    return next((table / layout.TIMELINE).glob("*.clustering.requested"))


@TABLES
def test_hudis_plan_reads_back_as_hudi_wrote_it(name: str, golden: Path) -> None:
    data = plan_file(golden / name).read_bytes()
    plan = decode_clustering_plan(data, made_at(name), name)
    assert len(plan.groups) == 3 and all(len(group.slices) == 3 for group in plan.groups)
    assert plan.sort_by == (("f64",) if name == "cow_cluster" else ())
    assert plan.curve is None and plan.target_bytes is None and not plan.removable
    again = encode_clustering_plan(plan, made_at(name))
    ours, theirs = decode_container(again, name), decode_container(data, name)
    assert ours is not None and theirs is not None
    assert ours["clusteringPlan"].pop("earliestInstantToRetain") is None, "the field of RFC-83"
    assert ours == theirs


def before_the_clustering(golden: Path, name: str, into: Path) -> Path:
    """The table as it was when Hudi had planned, at another place."""
    table = into / name
    shutil.copytree(golden / name, table)
    planned = plan_file(table)
    at = planned.name.partition(".")[0]
    plan = decode_clustering_plan(planned.read_bytes(), made_at(name), name)
    planned.write_bytes(encode_clustering_plan(plan, str(table)))
    for file in (table / layout.TIMELINE).iterdir():
        is_later = file.name[: len(at)] > at or file.name.startswith(f"{at}_")
        if file.is_file() and (is_later or file.name == f"{at}.clustering.inflight"):
            file.unlink()
    path = table / layout.PROPERTIES
    values = decode_properties(path.read_bytes(), layout.PROPERTIES)
    path.write_bytes(encode_properties(values | {"hoodie.table.metadata.partitions": ""}, ""))
    shutil.rmtree(table / layout.METADATA_TABLE, ignore_errors=True)
    return table


@TABLES
def test_hudis_plan_is_executed_as_hudi_did(name: str, golden: Path, tmp_path: Path) -> None:
    path = before_the_clustering(golden, name, tmp_path)
    table = lentic.open(str(path))
    opened = table._opened
    (plan,) = load_timeline(opened.storage).pending(Action.CLUSTERING)
    before = table.read(meta=True).drop_columns([FILE_NAME]).to_pylist()
    done = execute_clustering(opened, LocalEngine(threads=1), plan.requested_at).instant
    after = table.read(meta=True).drop_columns([FILE_NAME]).to_pylist()
    assert sorted(map(str, after)) == sorted(map(str, before))

    hudi = lentic.open(str(golden / name))._opened.storage
    theirs = next(i for i in load_timeline(hudi).writes() if i.requested_at == plan.requested_at)
    mine, other = load_commit_metadata(opened.storage, done), load_commit_metadata(hudi, theirs)
    assert mine.operation == other.operation
    assert {p: set(ids) for p, ids in mine.replaced.items()} == {
        p: set(ids) for p, ids in other.replaced.items()
    }
    counts = [
        sorted((s.partition, s.writes, s.inserts, s.prev_commit) for s in metadata.stats)
        for metadata in (mine, other)
    ]
    assert counts[0] == counts[1]
    assert done == Instant(
        plan.requested_at, Action.REPLACECOMMIT, State.COMPLETED, done.completed_at
    )
