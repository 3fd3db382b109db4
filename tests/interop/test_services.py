"""Table services of lentic and Apache Hudi on each other's tables, and each other's plans.

Every service runs on every shape of table: planned by one engine, executed by the same or by the
other, upon rows that either wrote. After each step lentic, Apache Hudi and hudi-rs must read the
rows of the model, and lentic must find the table sound. What runs by default is one table for each
pair of engines, at which Apache Hudi looks now and then; `make interop` runs all of them and lets
it look after every single step (marked slow).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import lentic
from lentic.format.names import Action
from lentic.timeline.instant import WRITES
from tests.interop.operations import Shape, batch
from tests.interop.readers import ApacheHudi
from tests.interop.services import HUDI, LENTIC, ServiceStory

# Few and small groups: what Apache Hudi does takes it a task for each.
BUCKETS = 2
PARTITIONS = ("p0", "p1")

MOR_BUCKETS = Shape("MERGE_ON_READ", BUCKETS, "ts")
MOR_JOIN = Shape("MERGE_ON_READ", None, "ts")
COW_BUCKETS = Shape("COPY_ON_WRITE", BUCKETS, "ts")
COW_JOIN = Shape("COPY_ON_WRITE", None, None)
SHAPES = (MOR_BUCKETS, MOR_JOIN, COW_BUCKETS, COW_JOIN)

# Who writes, who plans, who executes.
HUDI_SERVES = (LENTIC, HUDI, HUDI)
LENTIC_SERVES = (HUDI, LENTIC, LENTIC)
LENTIC_EXECUTES = (LENTIC, HUDI, LENTIC)
HUDI_EXECUTES = (LENTIC, LENTIC, HUDI)
PAIRS = (HUDI_SERVES, LENTIC_SERVES, LENTIC_EXECUTES, HUDI_EXECUTES)
IN_SHORT = (COW_JOIN, COW_BUCKETS, MOR_BUCKETS, MOR_JOIN)

NOT_CANCELLABLE = {"cancellable": False}

pytestmark = pytest.mark.interop


def _named(pair: tuple[str, str, str]) -> str:
    return "{}-writes-{}-plans-{}-executes".format(*pair)


def rows(first: int, last: int, ts: int, *partitions: str) -> pa.Table:
    return batch(first, last, ts, partitions or PARTITIONS)


def keep_house(story: ServiceStory, writer: str, planner: str, executor: str) -> None:
    """Each service that the table can have, with writes between them and beside the plans."""
    upsert = partial(story.write, writer, "upsert")
    for ts in range(1, 4):
        upsert(rows(0, 40, ts))
    if story.shape.is_mor:
        story.serve("log_compaction", planner, executor)
        upsert(rows(10, 50, 5))
        story.serve("compaction", planner, executor, lambda: upsert(rows(20, 60, 6)))
        story.look("log compaction and compaction")
    if not story.shape.buckets:  # Hudi clusters buckets only where their number may change
        story.serve("clustering", planner, executor)
        upsert(rows(10, 60, 8))
    story.write(writer, "delete", rows(0, 8, 0))
    story.serve("clean", planner, executor, lambda: upsert(rows(20, 70, 9)))
    story.look("clean")
    story.write(writer, "insert_overwrite", rows(0, 12, 10, "p1"))
    upsert(rows(0, 30, 11))
    assert story.archive(executor) > 0
    upsert(rows(0, 70, 16))
    story.look("archive")


def keep_house_again(story: ServiceStory, writer: str, planner: str, executor: str) -> None:
    """Upon what was cleaned and archived the first time; then the other engine writes on."""
    for ts in range(21, 24):
        story.write(writer, "upsert", rows(0, 40, ts))
    if story.shape.is_mor:
        story.serve("compaction", planner, executor)
        story.write(writer, "upsert", rows(0, 40, 24))
    story.serve("clean", planner, executor)
    assert story.archive(planner) > 0
    other = HUDI if writer == LENTIC else LENTIC
    story.write(other, "upsert", rows(30, 90, 25))
    story.write(writer, "upsert", rows(10, 50, 26))
    story.look_closely("both wrote on")


@pytest.mark.parametrize(
    ("shape", "pair", "is_thorough"),
    [
        *(
            pytest.param(shape, pair, False, id=f"{shape}-{_named(pair)}-in-short")
            for shape, pair in zip(IN_SHORT, PAIRS, strict=True)
        ),
        *(
            pytest.param(shape, pair, True, id=f"{shape}-{_named(pair)}", marks=pytest.mark.slow)
            for shape in SHAPES
            for pair in PAIRS
        ),
    ],
)
def test_services_of_either_engine_change_no_row(
    shape: Shape,
    pair: tuple[str, str, str],
    is_thorough: bool,
    tmp_path: Path,
    apache_hudi: ApacheHudi,
) -> None:
    writer, planner, executor = pair
    story = ServiceStory.begin_by(
        writer, str(tmp_path / "t"), shape, apache_hudi, is_thorough=is_thorough
    )
    keep_house(story, writer, planner, executor)
    if is_thorough:
        keep_house_again(story, writer, planner, executor)


@pytest.mark.slow
@pytest.mark.parametrize("planner", [HUDI, LENTIC])
@pytest.mark.parametrize("shape", [MOR_BUCKETS, MOR_JOIN], ids=str)
def test_logs_written_beside_a_plan_of_log_compaction_stay(
    planner: str, shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """The plan is executed by the other engine; then by a chain of both, and compacted."""
    story = ServiceStory.begin(str(tmp_path / "t"), shape, apache_hudi)
    executor = LENTIC if planner == HUDI else HUDI
    for ts in range(1, 4):
        story.upsert(rows(0, 40, ts))
    story.serve("log_compaction", planner, executor, lambda: story.upsert(rows(20, 60, 4)))
    story.delete_keys(rows(0, 8, 0))
    story.upsert(rows(10, 50, 5))
    story.serve("log_compaction", executor, planner)
    story.upsert(rows(0, 20, 6))
    story.serve("compaction", planner, executor)
    story.look_at_base_files()


@pytest.mark.slow
@pytest.mark.parametrize("planner", [HUDI, LENTIC])
@pytest.mark.parametrize("shape", [MOR_JOIN, COW_JOIN], ids=str)
def test_a_write_is_refused_in_groups_that_are_going_to_be_clustered_for_certain(
    planner: str, shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """A plan of Apache Hudi may not be cancelled, nor one of lentic that says so: the write is
    refused, and the plan executed by the other engine."""
    story = ServiceStory.begin(str(tmp_path / "t"), shape, apache_hudi)
    for ts in range(1, 4):
        story.upsert(rows(0, 40, ts))
    at = story.schedule("clustering", planner, **({} if planner == HUDI else NOT_CANCELLABLE))
    for number, write in enumerate((story.upsert, story.insert_overwrite, story.delete_keys)):
        with pytest.raises(lentic.WriteConflict, match="may not be cancelled"):
            write(rows(10, 50, 10 + number))
    story.insert(rows(100, 140, 5))  # new keys need none of these groups
    story.execute("clustering", at, LENTIC if planner == HUDI else HUDI)
    story.look_closely("a plan met writes")
    story.upsert(rows(0, 60, 20))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [MOR_BUCKETS, COW_BUCKETS], ids=str)
def test_both_engines_find_the_buckets_that_lentic_clustered(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """Rows are sorted within their bucket, which Hudi cannot plan; then it writes into them."""
    story = ServiceStory.begin(str(tmp_path / "t"), shape, apache_hudi)
    story.upsert(rows(0, 40, 1))
    for ts in range(2, 5, 2):
        story.upsert(rows(10, 50, ts))
        story.serve("clustering", LENTIC, LENTIC)
        story.write(HUDI, "upsert", rows(0, 60, ts + 1))
    story.delete_keys(rows(0, 8, 0))
    story.serve("clean", HUDI, LENTIC)
    if shape.is_mor:
        story.serve("compaction", HUDI, HUDI)
    story.upsert(rows(0, 60, 9))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_engines_archive_in_turns_and_read_the_same_history(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """Often enough that files of history are merged, by either."""
    story = ServiceStory.begin(str(tmp_path / "t"), shape, apache_hudi, is_thorough=False)
    for turn in range(8):
        keeper = (LENTIC, HUDI)[turn % 2]
        for number in range(2):
            story.write((LENTIC, HUDI)[number], "upsert", rows(0, 30 + turn, 2 * turn + number + 1))
        if shape.is_mor:
            story.serve("compaction", HUDI, LENTIC)
        story.write(HUDI, "insert_overwrite", rows(0, 12, 2 * turn + 2, "p1"))
        if planned := story.try_schedule("clean", HUDI):
            story.execute("clean", planned, HUDI)
        story.archive(keeper)
        past = [instant for instant in story.open().history() if instant.action in WRITES]
        archived = {str(instant.requested_at) for instant in past}
        assert turn < 2 or archived
        assert story.hudi_history() == archived
        story.look(f"{keeper} archived")


@pytest.mark.parametrize(
    ("shape", "saver", "restorer"),
    [
        pytest.param(COW_JOIN, HUDI, LENTIC, id="in-short"),
        *(
            pytest.param(shape, *pair, marks=pytest.mark.slow)
            for shape in SHAPES
            for pair in ((LENTIC, HUDI), (HUDI, LENTIC), (HUDI, HUDI), (LENTIC, LENTIC))
        ),
    ],
    ids=str,
)
def test_what_one_engine_saved_survives_cleaning_and_the_other_restores_it(
    shape: Shape, saver: str, restorer: str, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    story = ServiceStory.begin(str(tmp_path / "t"), shape, apache_hudi, is_thorough=False)
    for ts in range(1, 4):
        story.upsert(rows(0, 40, ts))
    at = story.savepoint(saver)
    for ts in range(4, 7):
        story.upsert(rows(10, 50, ts))
    if shape.is_mor:
        story.serve("compaction", restorer, restorer)
    for keeper in (saver, restorer):
        story.upsert(rows(10, 50, 7))
        if planned := story.try_schedule("clean", keeper):
            story.execute("clean", planned, keeper)
        story.archive(keeper)
    story.look("cleaning and archiving beside a savepoint")
    assert Action.SAVEPOINT in [instant.action for instant in story.open().timeline()]
    story.restore(at, restorer)
    story.look("restore")
    story.upsert(rows(20, 60, 9))
    if shape.is_mor:
        story.serve("compaction", saver, restorer)
    story.release(at, restorer)
    story.upsert(rows(0, 60, 10))
    story.upsert(rows(0, 60, 11))
    story.serve("clean", saver, restorer)
    story.upsert(rows(0, 60, 12))
    story.look("release")


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_engine_rolls_back_what_the_other_wrote(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    story = ServiceStory.begin(str(tmp_path / "t"), shape, apache_hudi)
    story.upsert(rows(0, 40, 1))
    story.upsert(rows(0, 40, 2))
    for number, (writer, undoer) in enumerate(((HUDI, LENTIC), (LENTIC, HUDI))):
        for operation in ("upsert", "delete", "insert_overwrite"):
            before = dict(story.model.rows)
            story.write(writer, operation, rows(10, 60, 10 + number))
            story.roll_back(before, undoer)
        story.write(writer, "upsert", rows(5, 45, 20 + number))
