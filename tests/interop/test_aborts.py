"""Tables with an aborted clustering as other engines meet them: they go on (C9, R18)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lentic
from tests.interop.compare import ensure_same_rows
from tests.interop.operations import Shape, batch
from tests.interop.readers import ApacheHudi, hudi_rs_rows
from tests.interop.services import HUDI, ServiceStory
from tests.rfc.claims import says

pytestmark = pytest.mark.interop

SHAPES = (
    Shape("COPY_ON_WRITE", None, None),
    Shape("MERGE_ON_READ", None, "ts"),
    Shape("COPY_ON_WRITE", 2, "ts"),
    Shape("MERGE_ON_READ", 2, "ts"),
)
ONE_AND_THE_REST = (
    SHAPES[1],
    *(pytest.param(shape, marks=pytest.mark.slow) for shape in SHAPES if shape != SHAPES[1]),
)
SORTED = {"sort_by": "score"}


def rows(first: int, last: int, ts: int) -> pa.Table:
    return batch(first, last, ts, ("p0", "p1"))


def cancel_one(table: lentic.Table, *, aborts: bool = True) -> str:
    """A plan that was made and cancelled, and has ended."""
    at = table.schedule("clustering", **SORTED)
    assert at is not None
    table.request_cancel(at)
    if aborts:
        assert table.execute_abort(at).instant.is_aborted
    return at


@says("C9", "R18")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_c9_hudi_rs_reads_a_table_with_cancelled_and_aborted_plans(
    shape: Shape, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    shape.create(path)
    table = lentic.open(path)

    def look() -> None:
        ensure_same_rows(table.read(), hudi_rs_rows(path), ("id",), "lentic", "hudi-rs")

    for ts in range(1, 4):
        table.upsert(rows(10 * ts, 10 * ts + 20, ts))
    at = cancel_one(table, aborts=False)
    look()
    table.execute_abort(at)
    look()
    table.upsert(rows(0, 60, 5))
    look()
    table.cluster(**SORTED)
    look()


@says("C9", "R18")
@pytest.mark.parametrize("shape", ONE_AND_THE_REST, ids=str)
def test_c9_apache_hudi_reads_writes_and_serves_a_table_after_an_abort(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    story = ServiceStory.begin(str(tmp_path / "t"), shape, apache_hudi)
    for ts in range(1, 4):
        story.upsert(rows(0, 30, ts))
    at = cancel_one(story.open())
    story.look("the abort")
    story.write(HUDI, "upsert", rows(10, 40, 5))
    story.look("a write of Hudi")
    if not shape.buckets:
        story.serve("clustering", HUDI, HUDI)
    story.upsert(rows(0, 30, 6))
    if shape.is_mor:
        story.serve("compaction", HUDI, HUDI)
    for ts in (7, 8, 9):
        story.write(HUDI, "upsert", rows(0, 30, ts))
    story.serve("clean", HUDI, HUDI)
    story.upsert(rows(0, 30, 10))
    assert story.archive(HUDI) > 0
    story.look("Hudi cleaned and archived")
    assert isinstance(story.open().execute(at), lentic.Aborted)
