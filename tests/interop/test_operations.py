"""Every operation on every shape of table: Apache Hudi and hudi-rs read what lentic wrote, Apache
Hudi goes on writing on it, and lentic after Apache Hudi.

What runs by default is two shapes, at which Apache Hudi looks now and then; `make interop` runs all
of them and lets it look after every single write (marked slow).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lentic
from lentic.format.bucket import bucket_file_id
from lentic.format.names import Action
from lentic.storage.local import LocalStorage
from lentic.testing.checkers import check_table, list_leftovers
from lentic.timeline.instant import WRITES
from lentic.timeline.reader import load_commit_metadata
from lentic.txn.transaction import Transaction
from lentic.write import completion
from tests.interop.compare import ensure_same_rows
from tests.interop.operations import BUCKETS, KEY, SHAPES, Shape, Story, batch
from tests.interop.readers import ApacheHudi, EngineFailed, hudi_rs_rows
from tests.rows import PARTITIONS

MOR_BUCKETS = Shape("MERGE_ON_READ", BUCKETS, "ts")
COW_BUCKETS = Shape("COPY_ON_WRITE", BUCKETS, "ts")
MOR_JOIN = Shape("MERGE_ON_READ", None, "ts")
COW_JOIN = Shape("COPY_ON_WRITE", None, None)

_ENDS = {"INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE", "DELETE_PARTITION"}
_ARCHIVES = {
    "hoodie.clean.automatic": "true",
    "hoodie.archive.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "1",
}

pytestmark = pytest.mark.interop


def lentic_writes(story: Story) -> None:
    """Each of lentic's operations once, and an upsert after each that could get in its way."""
    story.bulk_insert(batch(0, 60, 1))
    story.upsert(batch(30, 90, 2))
    story.upsert(batch(0, 20, 3))
    story.upsert(batch(40, 60, 0))  # late: only without ordering does it change anything
    story.insert(batch(90, 110, 2))
    story.delete_keys(batch(0, 9, 0))
    story.delete_from(100)
    story.compact()
    story.look("deletes")
    story.insert_overwrite(batch(0, 12, 4, ("p1",)))  # fewer rows than buckets
    story.upsert(batch(0, 40, 5))
    story.delete_partitions("p2")
    story.upsert(batch(0, 40, 6))
    story.insert_overwrite_table(batch(10, 20, 7, ("p0", "p1", "p2")))
    story.upsert(batch(0, 40, 8))
    story.look("overwrites")


def evolve(story: Story) -> None:
    """A column more and a wider type, by an upsert; then all over, and compacted."""
    story.compact()  # hudi-rs does not read logs from before both
    story.upsert(batch(20, 50, 9, evolved=True))
    story.delete_keys(batch(45, 50, 0))
    story.upsert(batch(0, 45, 10, evolved=True))
    story.compact()
    story.look("evolution")


def rows(first: int, last: int, ts: int, *partitions: str) -> pa.Table:
    """Rows as they are once the table has evolved."""
    return batch(first, last, ts, partitions or PARTITIONS, evolved=True)


def hudi_writes(story: Story) -> None:
    """Apache Hudi goes on, and lentic upserts where it overwrote."""
    story.hudi_writes("upsert", rows(20, 60, 20))
    story.hudi_writes("delete", rows(0, 8, 0))
    story.delete_from(50)
    story.hudi_writes("insert_overwrite", rows(0, 9, 21, "p1"))
    story.upsert(rows(0, 40, 22))
    story.look("upserting where Hudi overwrote")


def both_write(story: Story) -> None:
    """Apache Hudi and lentic in turns, each upon what the other overwrote."""
    story.hudi_writes("upsert", rows(10, 50, 23))
    story.insert_overwrite(rows(0, 9, 24, "p1"))
    story.hudi_writes("upsert", rows(0, 20, 25))
    story.hudi_deletes_partition("p2")
    story.upsert(rows(0, 30, 26))
    story.hudi_writes("insert_overwrite_table", rows(0, 9, 27, "p0", "p2", "p3"))
    story.upsert(rows(0, 30, 28))
    story.delete_partitions("p0")
    story.hudi_writes("upsert", rows(0, 20, 29))


def hudi_keeps_house(story: Story) -> None:
    """Compaction, cleaning and archiving by Apache Hudi, and more writes by both."""
    story.insert_overwrite(rows(0, 9, 40, "p1"))
    story.delete_partitions("p3")
    story.upsert(rows(0, 30, 41))
    story.delete_keys(rows(8, 16, 0))
    if story.shape.is_mor:
        story.hudi_compacts()
    story.insert_overwrite_table(rows(0, 20, 42))
    story.hudi_writes("upsert", rows(10, 30, 43))
    story.hudi_cleans()
    story.hudi_writes("upsert", rows(20, 40, 44), _ARCHIVES)
    assert story.open().history()
    story.upsert(rows(0, 45, 45))
    story.insert_overwrite(rows(0, 9, 46, "p1"))
    story.upsert(rows(0, 45, 47))
    story.hudi_writes("upsert", rows(10, 50, 48))


def look_around_overwrites(story: Story) -> None:
    """What each write that ended rows did, as incremental queries and time travel tell it."""
    if story.shape.is_mor:
        story.look_at_base_files()
    done = [instant for instant in story.open().timeline() if instant.is_completed]
    upto = [str(instant.completed_at) for instant in done]
    ends = [number for number, instant in enumerate(done) if operation_of(story, instant) in _ENDS]
    assert len(ends) == len(_ENDS)
    for number in ends:
        what = str(done[number])
        story.look_at_changes(upto[number - 1], upto[number], what)
        story.look_at_changes(upto[number - 1], upto[-1], f"{what} and later ones")
        story.look_back(str(done[number].requested_at), what)


def operation_of(story: Story, instant: lentic.Instant) -> str:
    """What a completed write says it did."""
    if instant.action not in WRITES:
        return ""
    return load_commit_metadata(LocalStorage(story.path), instant).operation


def completion_files(path: str) -> list[str]:
    """What lies in the folder that only lentic knows."""
    return sorted(file.path for file in LocalStorage(path).walk(".hoodie/.completion"))


@pytest.mark.parametrize(
    ("shape", "is_thorough"),
    [
        pytest.param(MOR_BUCKETS, False, id=f"{MOR_BUCKETS}-in-short"),
        pytest.param(COW_JOIN, False, id=f"{COW_JOIN}-in-short"),
        *(pytest.param(shape, True, id=str(shape), marks=pytest.mark.slow) for shape in SHAPES),
    ],
)
def test_every_reader_sees_what_every_operation_left(
    shape: Shape, is_thorough: bool, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    story = Story.begin(str(tmp_path / "t"), shape, apache_hudi, is_thorough=is_thorough)
    lentic_writes(story)
    if is_thorough:
        look_around_overwrites(story)
    evolve(story)
    hudi_writes(story)
    if is_thorough:
        both_write(story)
    assert check_table(LocalStorage(story.path)) == []
    assert list_leftovers(LocalStorage(story.path)) == []
    if is_thorough:
        hudi_keeps_house(story)


@pytest.mark.slow
@pytest.mark.parametrize("planner", ["hudi", "lentic"])
def test_overwriting_while_a_compaction_is_planned_loses_and_revives_nothing(
    planner: str, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """The plan is executed by the other engine."""
    story = Story.begin(str(tmp_path / "t"), MOR_BUCKETS, apache_hudi)
    story.bulk_insert(batch(0, 40, 1))
    story.upsert(batch(0, 40, 2))
    story.delete_keys(batch(0, 8, 0))
    if planner == "hudi":
        story.hudi_compacts("schedule")
    else:
        assert story.open().schedule("compaction")
    story.insert_overwrite(batch(0, 6, 3, ("p1",)))
    story.delete_partitions("p2")
    story.upsert(batch(4, 30, 4))
    if planner == "hudi":
        assert isinstance(story.open().compact(), lentic.Committed)
        story.look("compaction of Hudi's plan")
    else:
        story.hudi_compacts("execute")
    story.look_at_base_files()
    story.hudi_writes("upsert", batch(20, 50, 5))
    story.hudi_compacts()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [MOR_BUCKETS, COW_BUCKETS], ids=str)
def test_a_partition_takes_rows_again_after_its_replacement_was_archived(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    story = Story.begin(str(tmp_path / "t"), shape, apache_hudi)
    story.bulk_insert(batch(0, 40, 1))
    story.hudi_deletes_partition("p2")
    for ts in range(2, 8):
        story.hudi_writes("upsert", batch(0, 40, ts, ("p0",)), _ARCHIVES)
    actions = [instant.action for instant in story.open().history()]
    assert Action.REPLACECOMMIT in actions
    story.upsert(batch(0, 40, 10, ("p2",)))
    story.hudi_writes("upsert", batch(0, 60, 11, ("p2",)))
    story.upsert(batch(0, 60, 12))


@pytest.mark.slow
def test_non_blocking_writers_of_hudi_meet_lentic_in_overwritten_buckets(
    tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """They agree on file ids without a word, so that an overwrite must not change them."""
    story = Story.begin(str(tmp_path / "t"), MOR_BUCKETS, apache_hudi)
    non_blocking = {
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
        ),
    }
    story.bulk_insert(batch(0, 40, 1))
    story.hudi_writes("upsert", batch(20, 44, 2), non_blocking)
    story.insert_overwrite(batch(0, 6, 3, ("p1",)))
    story.hudi_writes("upsert", batch(0, 44, 4), non_blocking)
    story.delete_partitions("p1")
    story.hudi_writes("upsert", batch(0, 44, 5), non_blocking)
    file_ids = {part.group.file_id for part in story.open().file_slices()}
    assert file_ids == {bucket_file_id(bucket) for bucket in range(BUCKETS)}


@pytest.mark.slow
@pytest.mark.parametrize("shape", [MOR_BUCKETS, COW_BUCKETS], ids=str)
def test_hudi_builds_its_metadata_table_over_base_files_without_rows(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """Column statistics of nothing, and data skipping by them."""
    story = Story.begin(str(tmp_path / "t"), shape, apache_hudi)
    story.bulk_insert(batch(0, 40, 1))
    story.delete_partitions("p1")
    story.insert_overwrite(batch(0, 3, 2, ("p2",)))
    indexed = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
    }
    story.hudi_writes("upsert", batch(0, 40, 3, ("p0",)), indexed)
    story.look("indexing", **indexed, **{"hoodie.enable.data.skipping": "true"})
    story.hudi_writes("upsert", batch(0, 40, 4), indexed)
    story.look("indexing", **indexed, **{"hoodie.enable.data.skipping": "true"})


@pytest.mark.slow
def test_hudi_reads_logs_from_before_a_column_was_added_and_one_widened(
    tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """hudi-rs takes such logs for partial updates and refuses them, whoever wrote them."""
    table = MOR_BUCKETS.create(str(tmp_path / "t"))
    for ts in (1, 2):
        table.upsert(batch(0, 40, ts))
    table.upsert(batch(10, 20, 3, evolved=True))
    ours = table.read()
    ensure_same_rows(ours, apache_hudi.rows(table.path), KEY, "lentic", "Apache Hudi")
    with pytest.raises(EngineFailed, match="partial-update column 'small'"):
        hudi_rs_rows(table.path)
    table.compact()
    ensure_same_rows(ours, hudi_rs_rows(table.path), KEY, "lentic", "hudi-rs")


@pytest.mark.slow
@pytest.mark.parametrize("shape", [MOR_BUCKETS, MOR_JOIN, COW_BUCKETS], ids=str)
def test_engines_agree_on_rows_that_come_late_after_a_delete(
    shape: Shape, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """Older than what was deleted. In logs the late row takes the delete's place and then loses
    against the stored row, which is back: so it is in Hudi, and compaction makes it last."""
    table = shape.create(str(tmp_path / "t"))
    table.bulk_insert(batch(0, 40, 5))
    table.delete("seq < 8")
    table.upsert(batch(0, 4, 3))
    for _ in range(2):
        ours = table.read()
        assert ours.num_rows == 36
        ensure_same_rows(ours, apache_hudi.rows(table.path), KEY, "lentic", "Apache Hudi")
        ensure_same_rows(ours, hudi_rs_rows(table.path), KEY, "lentic", "hudi-rs")
        back = set(ours.filter(pc.field("seq") < 4).column("ts").to_pylist())
        # Without buckets too: the key is still found in the base file, so the row goes to its log.
        assert back == ({5} if shape.is_mor else {3})
        if shape.is_mor:
            table.compact()


class Killed(BaseException):
    """Not an `Exception`: no handler may survive it, as none survives the end of a process."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> Iterator[None]:
    """The write inside dies when it calls `name`, without having cleaned anything up."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(owner, name, die)
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "verb", "owner", "name"),
    [
        (COW_BUCKETS, "upsert", completion, "finalize"),
        (MOR_BUCKETS, "upsert", Transaction, "complete"),
        (MOR_BUCKETS, "insert_overwrite", Transaction, "complete"),
        (COW_JOIN, "upsert", Transaction, "complete"),
        (MOR_JOIN, "insert_overwrite_table", Transaction, "complete"),
    ],
)
def test_hudi_rolls_back_a_write_of_lentic_that_was_killed(
    shape: Shape,
    verb: str,
    owner: object,
    name: str,
    tmp_path: Path,
    apache_hudi: ApacheHudi,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story.begin(str(tmp_path / "t"), shape, apache_hudi)
    storage = LocalStorage(story.path)
    story.bulk_insert(batch(0, 40, 1))
    story.upsert(batch(0, 20, 2))
    with killed_at(monkeypatch, owner, name):
        getattr(story.open(), verb)(batch(10, 60, 3))
    (dead,) = [instant for instant in story.open().timeline() if instant.is_pending]
    mine = completion_files(story.path)
    assert [path for path in mine if str(dead.requested_at) in path]
    story.look("a write was killed")

    story.hudi_writes("upsert", batch(30, 50, 4))  # under its EAGER policy it rolls back first
    assert Action.ROLLBACK in [instant.action for instant in story.open().timeline()]
    assert [path for path in list_leftovers(storage) if not path.startswith(".hoodie/")] == []
    assert completion_files(story.path) == mine
    story.upsert(batch(0, 55, 5))
    assert check_table(storage) == []
    assert list_leftovers(storage) == []
