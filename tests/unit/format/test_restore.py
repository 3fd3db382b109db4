"""Restore plans and restore metadata, both ways."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lentic.errors import Corrupt
from lentic.format.avro import decode_container, encode_container
from lentic.format.named_files import decode_named_files
from lentic.format.names import Action
from lentic.format.plans import RollbackMetadata, encode_rollback_metadata
from lentic.format.restore import (
    RestoreMetadata,
    RestorePlan,
    Undone,
    decode_restore_metadata,
    decode_restore_plan,
    decode_undone,
    encode_restore_metadata,
    encode_restore_plan,
)
from lentic.format.times import RequestedAt

POINT = RequestedAt("20261115095007623")
ONE = RequestedAt("20261115095009057")
TWO = RequestedAt("20261115095010319")
FILES = {ONE: (f"p0/f-0_0-0-0_{ONE}.parquet",), TWO: (f".f-0_{TWO}.log.1_0-0-0",)}
PLAN = RestorePlan(POINT, (Undone(TWO, Action.COMPACTION), Undone(ONE, Action.COMMIT)), FILES)
DONE = RestoreMetadata(
    RequestedAt("20261115095011715"),
    (
        RollbackMetadata(RequestedAt("20261115095011715"), TWO, Action.COMPACTION, FILES[TWO]),
        RollbackMetadata(RequestedAt("20261115095011715"), ONE, Action.COMMIT, FILES[ONE]),
    ),
    7,
)


@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, undone=(), files={})])
def test_a_restore_plan_comes_back_as_it_was(plan: RestorePlan) -> None:
    assert decode_restore_plan(encode_restore_plan(plan), "x") == plan


def test_a_plan_without_our_field_has_no_files_to_delete() -> None:
    record = decode_container(encode_restore_plan(PLAN), "x")
    assert record is not None
    record["lenticFiles"] = None
    plan = decode_restore_plan(encode_container("HoodieRestorePlan", record), "x")
    assert plan == replace(PLAN, files=None)


@pytest.mark.parametrize(
    "path",
    [f"p0/f-0_0-0-0_{POINT}.parquet", f"../f-0_0-0-0_{ONE}.parquet", "p0/x", f".hoodie/{ONE}"],
)
def test_a_plan_can_only_name_files_of_the_instants_it_undoes(path: str) -> None:
    record = decode_container(encode_restore_plan(PLAN), "x")
    assert record is not None
    record["lenticFiles"][str(ONE)] = [path]
    with pytest.raises(Corrupt):
        decode_restore_plan(encode_container("HoodieRestorePlan", record), "x")


@pytest.mark.parametrize("metadata", [DONE, replace(DONE, rollbacks=())])
def test_the_record_of_a_restore_comes_back_as_it_was(metadata: RestoreMetadata) -> None:
    data = encode_restore_metadata(metadata, "/data/t")
    assert decode_restore_metadata(data, "file:/data/t", "x") == metadata


def test_what_was_undone_is_known_wherever_the_table_lies_now() -> None:
    data = encode_restore_metadata(DONE, "/there")
    assert decode_undone(data, "x") == PLAN.undone
    rollback = encode_rollback_metadata(DONE.rollbacks[0], "/there")
    assert decode_undone(rollback, "x") == PLAN.undone[:1]
    assert decode_undone(b"", "x") == ()


def test_the_files_a_plan_names_are_found_in_any_kind_of_plan() -> None:
    named = {FILES[ONE][0].removeprefix("p0/"), FILES[TWO][0]}
    assert decode_named_files(encode_restore_plan(PLAN), "x") == named
    assert decode_named_files(encode_restore_metadata(DONE, "/data/t"), "x") == named
    assert decode_named_files(b"", "x") == frozenset()
