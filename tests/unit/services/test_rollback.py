"""What a write finds of those before it: undone, swept up, or left to whom it belongs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lentic.engine import LocalEngine
from lentic.errors import InvalidRecord, StorageError
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.ingest.flow import write
from lentic.records.merge import IS_DELETED
from lentic.services.failed_writes import roll_back_all
from lentic.services.rollback import sweep_markers
from lentic.storage.base import Storage
from lentic.table import Table
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.write import completion, markers
from lentic.write.operations import Operation, Request
from lentic.write.placement import DELETE_FLAG
from tests.unit.builders import SCHEMA, WrappedStorage, clock_of, data_paths, new_table, rows
from tests.unit.write.attempts import ENGINE, begin, finish, read_all, run_attempt, upsert

DAY_MS = 24 * 3600 * 1000


def _completions(storage: Storage) -> list[str]:
    return [file.path for file in storage.walk(layout.COMPLETIONS)]


class _Dies(LocalEngine):
    """Writes the files and dies before the driver hears of them."""

    def shuffle(self, *given: Any, **more: Any) -> list[str]:
        super().shuffle(*given, **more)
        raise StorageError("The power is gone.")

    def run(self, *given: Any, **more: Any) -> list[str]:
        super().run(*given, **more)
        raise StorageError("The power is gone.")


@pytest.mark.parametrize("buckets", [2, None])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("operation", list(Operation))
def test_a_write_of_any_kind_that_fails_is_undone_at_once(
    operation: Operation, table_type: str, buckets: int | None
) -> None:
    table = new_table(table_type=table_type, buckets=buckets)
    upsert(table, rows(("a", 1, "d"), ("b", 2, "d")))
    before, files = read_all(table), data_paths(table.storage)
    given, request = rows(("a", 9, "d"), ("c", 9, "d")), Request(operation)
    if operation is Operation.DELETE_PARTITION:
        given, request = None, Request(operation, partitions=("d",))
    with pytest.raises(StorageError, match="power"):
        write(table, _Dies(threads=1), given, request)
    assert read_all(table) == before
    assert data_paths(table.storage) == files
    timeline = load_timeline(table.storage)
    assert timeline.pending() == ()
    assert len(timeline.writes()) == 1
    assert len(timeline.completed(Action.ROLLBACK)) == 1
    assert write(table, ENGINE, given, request).requested_at


@pytest.mark.parametrize("buckets", [2, None])
def test_an_overwrite_whose_driver_died_is_undone_by_the_next_write(buckets: int | None) -> None:
    table = new_table(buckets=buckets)
    upsert(table, rows(("a", 1, "d")))
    request = Request(Operation.INSERT_OVERWRITE)
    dead = begin(table, request)
    expected = Action.DELTACOMMIT if buckets else Action.REPLACECOMMIT
    assert dead.instant.action is expected
    assert roll_back_all(table) == (dead.instant,)
    timeline = load_timeline(table.storage)
    assert timeline.pending() == ()
    assert timeline.find(dead.instant) is None
    finish(table, rows(("z", 9, "d")), begin(table, request), request)
    assert list(read_all(table)) == ["z"]


def test_a_single_writer_leaves_one_alone_who_gives_signs_of_life() -> None:
    """Somebody shares the table who was not told of it: say a clean by hand, without options."""
    table = new_table()
    other = begin(table)
    heartbeat = layout.heartbeat(other.instant.requested_at)
    for beat in range(3):
        table.storage.replace(heartbeat, b"%d" % beat)
        assert roll_back_all(table) == ()
        table.watch.clock.sleep(table.pulse.ttl_ms / 1000)
    assert load_timeline(table.storage).pending() == (other.instant,)
    assert roll_back_all(table) == (other.instant,)
    assert load_timeline(table.storage).pending() == ()


def test_a_refused_write_leaves_no_completion_of_shares_that_had_nothing_to_write() -> None:
    schema = SCHEMA.append(pa.field(IS_DELETED, pa.bool_()))
    table = new_table(
        buckets=1, ordering="v", schema=schema, options={"hoodie.upsert.shuffle.parallelism": 1}
    )
    given = rows(("x", 1, "d1"), ("a", None, "d2"), ("a", 1, "d2"))
    given = given.append_column(IS_DELETED, pa.array([None, True, False]))
    given = given.append_column(DELETE_FLAG, pa.array([True, False, False]))
    with pytest.raises(InvalidRecord, match="Key a is deleted"):
        write(table, ENGINE, given, Request(Operation.UPSERT, flagged=True))
    assert load_timeline(table.storage).instants == ()
    assert [path for path in _completions(table.storage) if "completed" in path] == []
    assert data_paths(table.storage) == []


def _finalized(table: OpenTable) -> list[str]:
    return [path for path in _completions(table.storage) if path.endswith(".finalized.json")]


def test_after_a_commit_only_the_finalize_marker_stays_and_goes_after_a_day() -> None:
    table = new_table()
    at = upsert(table, rows(("a", 1, "d")))
    assert _completions(table.storage) == [f"{layout.COMPLETIONS}/{at}.finalized.json"]
    clock_of(table).ms += DAY_MS - 1_000
    Table(table, ENGINE).upsert(rows(("b", 1, "d")))
    assert len(_finalized(table)) == 2
    clock_of(table).ms += 2_000
    Table(table, ENGINE).upsert(rows(("c", 1, "d")))
    assert not any(at in path for path in _completions(table.storage))
    assert len(_finalized(table)) == 2
    assert set(read_all(table)) == {"a", "b", "c"}


def test_the_finalize_marker_of_a_pending_plan_is_never_swept() -> None:
    table = new_table()
    upsert(table, rows(("a", 1, "d")))
    at = Table(table, ENGINE).schedule("compaction")
    assert at is not None
    completion.finalize(table.storage, at, 5, [])
    clock_of(table).ms += 3 * DAY_MS
    roll_back_all(table)
    assert completion.is_finalized(table.storage, at)


@pytest.mark.parametrize("folder", [layout.TEMP, layout.COMPLETIONS])
@pytest.mark.parametrize("name", ["7", "123456789012345678901", "99999999999999"])
def test_a_folder_that_no_instant_is_named_after_stops_nobody(folder: str, name: str) -> None:
    table = new_table()
    path = f"{folder}/{name}/p/x.parquet.marker.CREATE"
    table.storage.put_if_absent(path, b"")
    Table(table, ENGINE).upsert(rows(("a", 1, "d")))
    assert table.storage.info(path) is not None, "it is not ours to remove"
    assert list(read_all(table)) == ["a"]


def test_files_of_attempts_nobody_waited_for_go_with_the_next_write() -> None:
    """One that woke up after the commit and was killed before it could remove what it wrote."""
    table = new_table(buckets=1)
    begun = begin(table)
    orphan = run_attempt(table, begun, rows(("a", 1, "d")))[0].stat.path
    content = table.storage.read(orphan)
    completion.remove_completions(table.storage, begun.instant.requested_at, keep_finalized=True)
    finish(table, rows(("a", 1, "d")), begun)
    assert orphan not in data_paths(table.storage), "the driver reconciled it"
    marker = layout.marker(begun.instant.requested_at, orphan, "CREATE")
    table.storage.put_if_absent(marker, b"")
    table.storage.put_if_absent(orphan, content)
    Table(table, ENGINE).upsert(rows(("b", 1, "d")))
    assert orphan not in data_paths(table.storage)
    assert table.storage.info(marker) is None
    assert set(read_all(table)) == {"a", "b"}


class _AnnouncesLate(WrappedStorage):
    """An attempt announces a file, and begins it, while files announced before are deleted."""

    def __init__(self, at: RequestedAt) -> None:
        super().__init__()
        self.at, self.late = at, ""

    def announce(self, number: int) -> str:
        path = f"d/f0000000-0000-0000-0000-00000000000{number}-0_9-9-9_{self.at}.parquet"
        markers.announce(self.inner, self.at, path, "CREATE")
        self.inner.put_if_absent(path, b"x")
        return path

    def after(self, op: str, path: str) -> None:
        if self.at and op == "delete" and path.endswith(".parquet") and not self.late:
            self.late = self.announce(2)


def test_a_file_that_is_announced_during_a_sweep_goes_with_the_next() -> None:
    """Its marker is all that tells of it, so that the sweep must not take what it has not seen."""
    storage = _AnnouncesLate(RequestedAt(""))
    table = new_table(storage=storage)
    storage.at = RequestedAt(upsert(table, rows(("a", 1, "d"))))
    early = storage.announce(1)
    sweep_markers(table)
    assert storage.late and storage.info(early) is None
    assert markers.list_announced(storage, storage.at) == (storage.late,)
    sweep_markers(table)
    assert storage.info(storage.late) is None
    assert not markers.list_marked(storage)
    assert list(read_all(table)) == ["a"]
