"""Compaction plans, rollback plans and rollback metadata."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace

import pytest

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.avro import decode_container, encode_container
from lentic.format.names import Action
from lentic.format.plans import (
    CompactionOperation,
    CompactionPlan,
    RollbackMetadata,
    RollbackPlan,
    decode_compaction_plan,
    decode_rollback_metadata,
    decode_rollback_plan,
    encode_compaction_plan,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from lentic.format.times import RequestedAt

# Plans as Apache Hudi 1.2.0 wrote them.
COMPACTION_BY_HUDI = zlib.decompress(
    base64.b64decode(
        "eNrFlc2O40QQxzMW4sABrRDaI2r5gDiMLX/mYyS0LEsWIs2S0SYSEqsodNzluBfH7XW3MztazQVOvADitI8AT8"
        "BTcODAnQNwAIkHoNqJPWF2E7KzDPgSp6vqX1W/7i4PZw8PjJt0WQhbRgks6FPzianOcjCPzAIiUTDz0MzoQv//"
        "SAjG4Y5Y5DRSXGQnKc3WVolL2kUUc5viewJ2UjJuV8ILwSBFx5hDyqR59OBJrShyKKiWkmheZX1gZmWK3k0VtC"
        "joGZq5ggUG713dsNZ+buYZlTDIpKKZGnNc2ZpeqoJnc7RXrTykS2qvl47M0erlfHJ+2Ahjq4re5SmcUJVcoa19"
        "8p1PDjFPTMtUmUdadzM/vUj/kl1tTxJjggH796DltFC8OlLXWfUC0CfasScLmqNxSdMSpEYpylkKV043E0KhP8"
        "2vaTsmO88BPMbU90BRfSD2bfmFCroqlyUUcnUt65p4pvQ91pVtxrkbQRqkgvnZ9k7+aR6MLhSeHQfRyk0Ud1Iq"
        "5cf0pScCtiEiXBgnQCKtSXQmohKqCJckL8SSM2AkgQKITESZMoJbBhkjFyX3H0NUbtZO6EyDiNRK85CgBtV6la"
        "7CXDnOZDKHTM8+UZBTnqaEplLUGSsnqHVJjZUoQUoJtrl922rXE1rQhfx/TlSNVGKjugxQeJZ0z0iGfA5npBAp"
        "EJ4Rpi0LnmEkOU14lJAVUaKrIbzaA26DTaIGNkFcqZhvLFDcDHS9YMizKC2RYSSymM/X1OtUQBJxuqmXATCpwc"
        "5q4sB2AX6BezHZdb/yAvkUS1hdgOeMABxMKaw+3ZelY+wTNkcmlxIZjvCDzko9xdZz+j/7sE3OWz98+f0XT3/+"
        "8Y0/f337qzd/+uMz45cbxquG6Tle23Xd0OmFbui6nZ5hfH1gh2GXdT2nYzmMeVbQo4E1i3yw4qAXsRCo6/Ycy5"
        "n+LdgP3NDGrbfdqWt5XXRoO512y/jmYE81HdVuY5TnT58py8aT+qgEZRzvp2a8rr+G7+aO8dpb4+H49vH0ePjh"
        "9O7guD9qVc/vt26u1gfD6b33W+uHNGv3+7c/2DC8c0lkOhp82q8s8XfvmU3UJ/cH4/5GWKu1DbEbdrtO1IstP/"
        "B9Kwg6gUUZ61rgUb9N4147iOMdiL0GcUcj3letQRzsQryfWo3YvXbEs6shjju+5wW9APuNwAo6eEi6bXCsjh+z"
        "ThzPHAjZDsROgzjUiPdUcxrE3i7E+6nViL1rR/zbtzsRt4xW65Xq5/Ic+QtntAvi"
    )
)
ROLLBACK_BY_HUDI = zlib.decompress(
    base64.b64decode(
        "eNq1lM1u00AUhdOo6hKJTdeWJXYZ2zO24zjsKhZ0RdV2F0XV9cx143bsMfYkUlVlxYKXQGLDKyDxHAghwSPwFE"
        "wSJ0RNEwIIeTO/5zv3zIxfJTcH7WOYVMqp+Qhz+PH03tZ3Jdp9u0KuKmF37ALyWf+lUiLDcyVlAvz2TELRzNUl"
        "8NkCVV07YNojdEZjkTlz2VwJlGZhmqEUtd0f3C/1sqLWUOhLtZQ0qxbogV2Mpdn0GyunC4HTIlWPArjK80xfZq"
        "azVF4p1rrKimszPjd5AxNwmqG+fbFoTKedlRRwnaniL2WG02HHFoqvjFtN6ZYegbYKRFFbWlkJWpWJAoXVpCEw"
        "hbHUdn8Wx5qbZWDn+HqMta63BwdVBXdmOtOY12u+d59to/toqCVUOpuFcQZ69M+5ppnEU7Hd/z5yw+1BSdCmjh"
        "Ool3flv5FmhdSX6gRfoESNYjOZbUexD3iNOxg+7P2qVl2fSMVvH/WxUXAOpZmcgDRHPd/8x9UPp7sSmWBVr7+Z"
        "gXnws/znNtb3USPUuvjcefd88PbZpzfvv3588u1L+8NR22Ye61JKQy8OI5/6zD82/xINi3fdPjosvXbLfN8PXA"
        "EaXAm3OFLjGl2dSDdX1VXVXGi39Fwn4IIlftojLO55JOBxQCBNUyJSStFjflf0esS72oA6JleHXnmExiHxu75B"
        "HpZ0bzJ1HUgD7mFICUsEJwGNE5L42CPdOKQBB5EmwttBpg05mJPZ3mTmOhEPEeIoIpxFKQlYEJFewijpCi/mfs"
        "K7fhTsILOGHBpkq9V+eEg/AZLdCV4="
    )
)
HUDI_ROOT = "/data/lakehouse/tbl/mor_rollback"

T = RequestedAt("20261115095731323")
OPERATION = CompactionOperation(
    "p0", "f-0", T, f"f-0_0-0-0_{T}.parquet", (f".f-0_{T}.log.1_0-0-0",)
)
PLAN = CompactionPlan((OPERATION, replace(OPERATION, partition="", base_file=None)), {"a": "b"})
ROLLBACK = RollbackPlan(
    T,
    Action.DELTACOMMIT,
    tuple(f"{partition}fg-{n}_0-0-0_{T}.parquet" for n, partition in enumerate(("", "p0/", "p0/"))),
)
DONE = RollbackMetadata(T, T, Action.COMMIT, ("a.parquet", "p0/b.parquet"), ("p1/c.parquet",), 7)


def test_a_compaction_plan_of_hudi_decodes() -> None:
    plan = decode_compaction_plan(COMPACTION_BY_HUDI, "x")
    assert plan.extra == {}
    assert len(plan.operations) == 3
    file_id = "558d8207-0dd2-49a4-bc3e-f49cd5ea1190-0"
    assert plan.operations[0] == CompactionOperation(
        partition="part=p0",
        file_id=file_id,
        base_instant=RequestedAt("20261115095151179"),
        base_file=f"{file_id}_1-2866-6023_20261115095151179.parquet",
        log_files=(f".{file_id}_20261115095153415.log.1_1-2890-6076",),
    )


def test_a_compaction_plan_has_the_shape_of_hudis_own() -> None:
    theirs = decode_container(COMPACTION_BY_HUDI, "x")
    plan = decode_compaction_plan(COMPACTION_BY_HUDI, "x")
    ours = decode_container(encode_compaction_plan(plan), "x")
    assert theirs is not None and ours is not None
    assert ours == theirs | {"earliestInstantToRetain": None}, "but for the field of RFC-83"


def test_compaction_plans_round_trip() -> None:
    assert decode_compaction_plan(encode_compaction_plan(PLAN), "x") == PLAN
    folding = replace(PLAN, compactor="org.apache.hudi.Some")
    assert decode_compaction_plan(encode_compaction_plan(folding), "x") == folding
    empty = CompactionPlan(())
    assert decode_compaction_plan(encode_compaction_plan(empty), "x") == empty


@pytest.mark.parametrize(
    "operation",
    [
        replace(OPERATION, base_file="../x.parquet"),
        replace(OPERATION, base_file="/etc/passwd"),
        replace(OPERATION, log_files=("p1/x",)),
        replace(OPERATION, log_files=("..",)),
        replace(OPERATION, partition="../p"),
        replace(OPERATION, partition=".hoodie"),
        replace(OPERATION, base_instant=RequestedAt("")),
    ],
)
def test_a_compaction_plan_that_points_elsewhere_is_corrupt(operation: CompactionOperation) -> None:
    with pytest.raises(Corrupt):
        decode_compaction_plan(encode_compaction_plan(CompactionPlan((operation,))), "x")


def test_a_compaction_plan_of_another_version_is_refused() -> None:
    data = encode_container("HoodieCompactionPlan", {"operations": [], "version": 1})
    with pytest.raises(UnsupportedFormat, match="version 1"):
        decode_compaction_plan(data, "x")


def test_an_empty_file_is_no_plan() -> None:
    with pytest.raises(Corrupt, match="empty"):
        decode_compaction_plan(b"", "x")
    with pytest.raises(Corrupt, match="empty"):
        decode_rollback_plan(b"", root="/t", where="x")


def test_a_rollback_plan_of_hudi_decodes_to_relative_paths() -> None:
    plan = decode_rollback_plan(ROLLBACK_BY_HUDI, root=HUDI_ROOT, where="x")
    assert (plan.target, plan.action) == (T, Action.DELTACOMMIT)
    assert plan.files == (
        f"p0/.4cd2b3f8-2980-4c94-afff-df11e0236d88-0_{T}.log.1_0-195-363",
        f"p1/.af4c0e51-2bdc-419b-b3e8-69514cadfbd0-0_{T}.log.1_1-195-364",
        f"p2/.7c5ea977-c27f-4247-8b21-6d09c3bc6374-0_{T}.log.1_2-195-365",
    )
    written = encode_rollback_plan(plan, HUDI_ROOT)
    assert decode_container(written, "x") == decode_container(ROLLBACK_BY_HUDI, "x")


@pytest.mark.parametrize(
    ("written_at", "read_at"),
    [
        ("/data/t", "/data/t"),
        ("/data/t/", "/data/t"),
        ("file:/data/t", "/data/t"),
        ("/data/t", "file:///data/t"),
        ("s3a://bucket/t", "s3://bucket/t/"),
        ("hdfs://host:1/t", "hdfs://host:1/t"),
        ("/odd:name/t", "/odd:name/t"),
    ],
)
def test_rollbacks_round_trip_however_the_root_is_spelled(written_at: str, read_at: str) -> None:
    assert (
        decode_rollback_plan(encode_rollback_plan(ROLLBACK, written_at), read_at, "x") == ROLLBACK
    )
    assert (
        decode_rollback_metadata(encode_rollback_metadata(DONE, written_at), read_at, "x") == DONE
    )


def test_a_rollback_plan_holds_absolute_paths() -> None:
    record = decode_container(encode_rollback_plan(ROLLBACK, "/data/t"), "x")
    assert record is not None
    paths = {
        request["partitionPath"]: request["filesToBeDeleted"]
        for request in record["RollbackRequests"]
    }
    assert paths == {
        "": [f"/data/t/fg-0_0-0-0_{T}.parquet"],
        "p0": [f"/data/t/p0/fg-1_0-0-0_{T}.parquet", f"/data/t/p0/fg-2_0-0-0_{T}.parquet"],
    }


@pytest.mark.parametrize("root", ["/data/t2", "/data", "/other/t", "/data/tx", "s3://data/t", ""])
def test_a_rollback_of_files_outside_the_table_is_corrupt(root: str) -> None:
    data = encode_rollback_plan(ROLLBACK, "/data/tt/../t")
    with pytest.raises(Corrupt, match="no data file"):
        decode_rollback_plan(data, "/data/tt", "x")
    with pytest.raises(Corrupt, match="no data file"):
        decode_rollback_plan(encode_rollback_plan(ROLLBACK, root), "/data/t", "x")
    with pytest.raises(Corrupt, match="no data file"):
        decode_rollback_metadata(encode_rollback_metadata(DONE, root), "/data/t", "x")


def test_a_rollback_of_the_table_s_own_files_is_corrupt() -> None:
    data = encode_rollback_plan(ROLLBACK, "/t/.hoodie")
    with pytest.raises(Corrupt, match="no data file"):
        decode_rollback_plan(data, "/t", "x")


def _rollback(action: str = "commit", **request: object) -> bytes:
    requests = [{"partitionPath": "", "filesToBeDeleted": [], **request}]
    target = {"commitTime": T, "action": action}
    return encode_container(
        "HoodieRollbackPlan", {"instantToRollback": target, "RollbackRequests": requests}
    )


def test_a_rollback_that_would_append_to_logs_is_refused() -> None:
    with pytest.raises(UnsupportedFormat, match="log files"):
        decode_rollback_plan(_rollback(logBlocksToBeDeleted={"/t/x": 1}), "/t", "x")


def test_a_rollback_of_an_unknown_action_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="explosion"):
        decode_rollback_plan(_rollback("explosion"), "/t", "x")


def test_a_rollback_plan_without_a_target_is_corrupt() -> None:
    with pytest.raises(Corrupt):
        decode_rollback_plan(encode_container("HoodieRollbackPlan", {}), "/t", "x")
