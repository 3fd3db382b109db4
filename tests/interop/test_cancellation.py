"""Tables whose clusterings are cancelled, as Apache Hudi and hudi-rs meet them.

Neither knows of requests to cancel, nor of plans that ended as aborted. Apache Hudi must not be
able to execute a plan that may be cancelled, and must be held up by none that has ended. After each
step every reader must see the rows of the model, and lentic must find the table sound.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lentic.format import layout
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from tests.interop.operations import Shape, batch
from tests.interop.readers import ApacheHudi, EngineFailed
from tests.interop.services import HUDI, LENTIC, ServiceStory

pytestmark = pytest.mark.interop

PARTITIONS = ("p0", "p1")
MOR_JOIN = Shape("MERGE_ON_READ", None, "ts")
COW_JOIN = Shape("COPY_ON_WRITE", None, None)
MOR_BUCKETS = Shape("MERGE_ON_READ", 2, "ts")
COW_BUCKETS = Shape("COPY_ON_WRITE", 2, "ts")
JOIN = (MOR_JOIN, pytest.param(COW_JOIN, marks=pytest.mark.slow))
ALL = (
    MOR_JOIN,
    *(pytest.param(s, marks=pytest.mark.slow) for s in (COW_JOIN, MOR_BUCKETS, COW_BUCKETS)),
)
NOT_UPDATED = "Not allowed to update the clustering file group"


def rows(first: int, last: int, ts: int) -> pa.Table:
    return batch(first, last, ts, PARTITIONS)


def begin(folder: Path, shape: Shape, hudi: ApacheHudi) -> ServiceStory:
    """A table with rows that are worth clustering."""
    story = ServiceStory.begin(str(folder / "t"), shape, hudi, is_thorough=False)
    for ts in range(1, 4):
        story.upsert(rows(0, 40, ts))
    return story


def cancel_by_writing(story: ServiceStory) -> str:
    """A plan that a write has cancelled, and that nobody has ended yet."""
    at = story.schedule("clustering", LENTIC)
    # Logs do not come in the way of a plan within buckets; whatever ends a file group does.
    write = story.insert_overwrite if story.shape.buckets else story.upsert
    write(rows(10, 50, 10))
    assert request(story, at).exists()
    assert at in story.pending()
    return at


def request(story: ServiceStory, at: str) -> Path:
    return Path(story.path) / layout.cancel_request(RequestedAt(at))


def aborted(story: ServiceStory) -> list[str]:
    return [str(i.requested_at) for i in story.open().timeline() if i.is_aborted]


def write_on(story: ServiceStory) -> None:
    """Apache Hudi does whatever it can with the file groups of the plan: it writes, keeps house and
    clusters them itself; lentic goes on after it."""
    story.write(HUDI, "upsert", rows(0, 60, 20))
    story.write(HUDI, "delete", rows(0, 8, 0))
    if story.shape.is_mor:
        story.serve("compaction", HUDI, HUDI)
    if not story.shape.buckets:
        story.serve("clustering", HUDI, HUDI)
    story.write(HUDI, "upsert", rows(5, 70, 21))
    story.look("Hudi wrote on")
    story.upsert(rows(10, 70, 22))
    story.serve("clustering", LENTIC, LENTIC)
    story.write(HUDI, "upsert", rows(0, 30, 23))
    story.look("both wrote on")


@pytest.mark.parametrize("shape", ALL, ids=str)
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["wanted", "cancelled"])
def test_apache_hudi_cannot_execute_a_plan_that_may_be_cancelled(
    shape: Shape, is_cancelled: bool, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """Cancelled or not: it does not look. It fails and leaves the plan to lentic."""
    story = begin(tmp_path, shape, apache_hudi)
    at = cancel_by_writing(story) if is_cancelled else story.schedule("clustering", LENTIC)
    story.ensure_hudi_cannot_execute("clustering", at)
    story.look("Hudi tried in vain")
    story.execute("clustering", at, LENTIC)
    assert (at in aborted(story)) == is_cancelled
    story.look("lentic did it")
    story.write(HUDI, "upsert", rows(0, 60, 20))
    story.look("Hudi wrote on")


@pytest.mark.parametrize("shape", JOIN, ids=str)
def test_a_table_with_a_cancelled_plan_is_read_by_all_and_takes_hudis_new_keys(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """To Apache Hudi the plan is pending: it refuses to update these file groups, as ever, and goes
    on with others. Once the plan is aborted it may."""
    story = begin(tmp_path, shape, apache_hudi)
    at = cancel_by_writing(story)
    story.look("a write cancelled a plan")
    story.write(HUDI, "upsert", rows(100, 120, 11))
    story.write(HUDI, "upsert", rows(100, 130, 12))
    story.look("Hudi wrote new keys")
    with pytest.raises(EngineFailed, match=NOT_UPDATED):
        story.write(HUDI, "upsert", rows(0, 60, 13))
    story.look("Hudi refused to update")
    story.open().execute_abort(at)
    assert aborted(story) == [at] and at not in story.pending()
    write_on(story)


@pytest.mark.parametrize("shape", ALL, ids=str)
def test_apache_hudi_goes_on_right_after_a_plan_was_aborted(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    story = begin(tmp_path, shape, apache_hudi)
    at = cancel_by_writing(story)
    story.execute("clustering", at, LENTIC)
    assert aborted(story) == [at]
    assert not request(story, at).exists()
    story.look("the plan was aborted")
    with pytest.raises(EngineFailed):
        story._ask_hudi("execute", "clustering", at)
    write_on(story)
    assert aborted(story) == [at]


@pytest.mark.parametrize("shape", JOIN, ids=str)
def test_what_a_crash_leaves_of_an_abort_holds_apache_hudi_up_only_until_lentic_comes_by(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """Aborted, but the request and the files of the earlier states are still there."""
    story = begin(tmp_path, shape, apache_hudi)
    at = cancel_by_writing(story)
    timeline = Path(story.path) / layout.TIMELINE
    requested = timeline / f"{at}.clustering.requested"
    kept = {path: path.read_bytes() for path in (request(story, at), requested)}
    story.open().execute_abort(at)
    for path, content in kept.items():
        path.write_bytes(content)
    (timeline / f"{at}.clustering.inflight").touch()
    story.look("a crash in the middle of an abort")
    story.write(HUDI, "upsert", rows(100, 120, 11))
    with pytest.raises(EngineFailed, match=NOT_UPDATED):
        story.write(HUDI, "upsert", rows(0, 60, 13))
    with pytest.raises(EngineFailed, match="executed-by-lentic-alone"):
        story._ask_hudi("execute", "clustering", at)
    assert aborted(story) == [at]
    story.open().clean()
    assert sorted(path.name for path in timeline.glob(f"{at}.*")) == [f"{at}.clustering.aborted"]
    assert not request(story, at).exists()
    write_on(story)


@pytest.mark.parametrize("shape", JOIN, ids=str)
def test_apache_hudi_cleans_and_archives_past_an_aborted_plan(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """It does not see the plan; lentic knows to the end how it ended."""
    story = begin(tmp_path, shape, apache_hudi)
    at = cancel_by_writing(story)
    story.execute("clustering", at, LENTIC)
    for ts in range(20, 26):
        story.write(HUDI, "upsert", rows(0, 40, ts))
    if shape.is_mor:
        story.serve("compaction", HUDI, HUDI)
        story.write(HUDI, "upsert", rows(0, 40, 26))
    story.serve("clean", HUDI, HUDI)
    story.archive(HUDI)
    story.look("Hudi cleaned and archived")
    story.serve("clustering", LENTIC, LENTIC)
    story.write(HUDI, "upsert", rows(0, 40, 27))
    story.archive(LENTIC)
    known = [*story.open().timeline(), *story.open().history()]
    (plan,) = (instant for instant in known if str(instant.requested_at) == at)
    assert plan.is_aborted and plan.action is Action.CLUSTERING
    story.look("lentic archived")
