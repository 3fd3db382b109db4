"""The record of what a plan has looked at: both ways, wherever it stands, and no damage passes."""

from __future__ import annotations

import json

import pytest

from lentic.config.clustering import Curve
from lentic.errors import Corrupt
from lentic.format.clean import CleanMetadata, CleanPlan, encode_clean_metadata, encode_clean_plan
from lentic.format.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    SlicePlan,
    decode_clustering_plan,
    encode_clustering_plan,
)
from lentic.format.commit_metadata import CommitMetadata, encode_commit_metadata
from lentic.format.names import Action
from lentic.format.plan_window import (
    WINDOW_KEY,
    Look,
    PlanWindow,
    decode_plan_window,
    decode_window,
    encode_window,
)
from lentic.format.plans import CompactionPlan, decode_compaction_plan, encode_compaction_plan
from tests.unit.builders import completed, requested

WINDOW = PlanWindow(
    at=requested(9),
    kind=Look.INCREMENTAL,
    lo=completed(4),
    hi=completed(9),
    carry=("", "day=1/hour=2"),
    relies=(requested(3), requested(4)),
    last=requested(8),
    floor=requested(2),
    options="ab12",
    plans=7,
    considered=3,
    savepoints=(requested(1),),
    recent=("day=9",),
    dropped=("day=7",),
)
FULL = PlanWindow(
    at=requested(9),
    kind=Look.FULL,
    lo=completed(0).__class__(""),
    hi=completed(9),
    why="no earlier plan",
    floor=requested(9),
    considered=5,
    total=5,
)
EXTRA = {WINDOW_KEY: encode_window(WINDOW)}


@pytest.mark.parametrize("window", [WINDOW, FULL])
def test_a_window_is_read_as_it_was_written(window: PlanWindow) -> None:
    assert decode_window(encode_window(window), "x") == window


def test_a_window_says_in_one_line_how_much_was_looked_at_and_why() -> None:
    assert str(WINDOW) == "incremental look at 3 partition(s)"
    assert str(FULL) == "full look at 5 of 5 partition(s): no earlier plan"


@pytest.mark.parametrize(
    "content",
    [
        encode_compaction_plan(CompactionPlan((), EXTRA)),
        encode_clustering_plan(ClusteringPlan((), extra=EXTRA), "/t"),
        encode_clean_plan(CleanPlan("KEEP", (), extra=EXTRA), "/t"),
        encode_clean_metadata(CleanMetadata(requested(9), "KEEP", (), extra=EXTRA)),
        encode_commit_metadata(CommitMetadata("COMPACT", True, (), EXTRA)),
        encode_commit_metadata(CommitMetadata("CLUSTER", False, (), EXTRA), replaces=True),
    ],
)
def test_a_window_is_found_in_every_plan_and_in_what_completes_it(content: bytes) -> None:
    assert decode_plan_window(content, "x") == WINDOW


def test_a_plan_without_a_window_says_so() -> None:
    assert decode_plan_window(encode_compaction_plan(CompactionPlan(())), "x") is None


@pytest.mark.parametrize(
    "change",
    [
        {"hi": None},
        {"hi": "soon"},
        {"kind": "partial"},
        {"kind": 1},
        {"carry": "p"},
        {"carry": ["../other"]},
        {"carry": [".hoodie/timeline"]},
        {"recent": ["a//b"]},
        {"relies": ["x"]},
        {"plans": -1},
        {"total": "many"},
        {"floor": None},
    ],
)
def test_a_window_that_makes_no_sense_is_damage(change: dict[str, object]) -> None:
    values = json.loads(encode_window(WINDOW)) | change
    with pytest.raises(Corrupt):
        decode_window(json.dumps(values), "x")


@pytest.mark.parametrize("text", ["", "[]", "7", "{", '{"at":"1"}', "[" * 100_000])
def test_what_is_no_window_is_damage(text: str) -> None:
    with pytest.raises(Corrupt):
        decode_window(text, "x")


def test_a_compaction_plan_keeps_what_it_leaves_to_the_next_and_how_far_it_has_seen() -> None:
    plan = CompactionPlan((), EXTRA, missing=("a", "b"), edge=(requested(9), Action.COMPACTION))
    assert decode_compaction_plan(encode_compaction_plan(plan), "x") == plan


def test_a_clustering_plan_keeps_what_it_leaves_to_the_next_and_how_far_it_has_seen() -> None:
    part = SlicePlan("p", "fg", f"p/fg_0-0-0_{requested(1)}.parquet")
    plan = ClusteringPlan(
        groups=(ClusteringGroup((part,), metrics={"TOTAL_IO_MB": 1.0}),),
        sort_by=("v",),
        curve=Curve.LINEAR,
        target_bytes=2048,
        extra=EXTRA,
        missing=("a", "b"),
        edge=(requested(9), Action.CLUSTERING),
    )
    assert decode_clustering_plan(encode_clustering_plan(plan, "/t"), "/t", "x") == plan
