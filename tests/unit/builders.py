"""Small values and doubles that the unit tests share: times, files, tables, clocks, storages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TypeVar

import pyarrow as pa

from lentic.api import create_table, plan_table
from lentic.config.groups import (
    REGISTRY,
    Codec,
    TableOptions,
    WriteOptions,
)
from lentic.config.options import resolve
from lentic.config.services import ServiceOptions
from lentic.config.sharing import LockOptions, SharingOptions
from lentic.coordination.heartbeat import Watch
from lentic.coordination.lock_process import ProcessLock
from lentic.errors import StorageError
from lentic.format.commit_metadata import CommitMetadata, WriteStat, encode_commit_metadata
from lentic.format.layout import data_file, timeline_file
from lentic.format.names import (
    Action,
    BaseFileName,
    LogFileName,
    State,
    format_base_file,
    format_log_file,
)
from lentic.format.times import CompletedAt, RequestedAt
from lentic.records.base_writer import ParquetStyle
from lentic.storage.base import FileInfo, Storage
from lentic.storage.memory import MemoryStorage
from lentic.testing.sim_world import SimEntropy
from lentic.timeline.instant import Instant
from lentic.txn.transaction import OpenTable
from lentic.view.files import BaseFile, FileGroupId, FileSlice, LogFile
from lentic.world import Process, Threads, World

T = TypeVar("T")

START_MS = 1_767_225_600_000
"""2026-01-01 00:00:00.000 UTC."""

GROUP = FileGroupId("p", "fg")
STYLE = ParquetStyle(Codec.ZSTD, 1_000)


def time(number: int) -> str:
    """The `number`th millisecond of a table's life."""
    return f"20260101000000{number:03d}"


def requested(number: int) -> RequestedAt:
    return RequestedAt(time(number))


def completed(number: int) -> CompletedAt:
    return CompletedAt(time(number))


def base_file(
    requested_at: int, completed_at: int, *, file_id: str = "fg", partition: str = "p"
) -> BaseFile:
    name = BaseFileName(file_id, "0-0-0", requested(requested_at))
    path = data_file(partition, format_base_file(name))
    return BaseFile(path, name, 100, completed(completed_at))


def log_file(
    requested_at: int,
    completed_at: int,
    *,
    file_id: str = "fg",
    partition: str = "p",
    version: int = 1,
    token: str = "0-0-0",
) -> LogFile:
    name = LogFileName(file_id, requested(requested_at), version, token)
    path = data_file(partition, format_log_file(name))
    return LogFile(path, name, 10, completed(completed_at))


def slice_of(base: BaseFile | None, *logs: LogFile) -> FileSlice:
    barrier = base.name.requested_at if base else RequestedAt("0")
    return FileSlice(GROUP, barrier, base, logs)


def stat(path: str, *, size: int = 1, log_files: tuple[str, ...] = ()) -> WriteStat:
    """A write stat of one file, with counts nobody looks at."""
    partition, _, name = path.rpartition("/")
    file_id = name.lstrip(".").partition("_")[0]
    is_log = ".log." in name
    return WriteStat(
        file_id=file_id,
        path=path,
        partition=partition,
        prev_commit=None,
        writes=1,
        updates=0,
        inserts=1,
        deletes=0,
        size=size,
        base_file="" if is_log else None,
        log_files=log_files or ((name,) if is_log else ()),
        log_version=1 if is_log else None,
    )


def metadata(*paths: str, replaced: dict[str, tuple[str, ...]] | None = None) -> CommitMetadata:
    """The commit metadata of a write that made these files."""
    operation = "CLUSTER" if replaced else "UPSERT"
    stats = tuple(map(stat, paths))
    return CommitMetadata(
        operation=operation, compacted=False, stats=stats, replaced=replaced or {}
    )


def put_instant(storage: Storage, instant: Instant, content: bytes = b"") -> None:
    """Put the files of an instant up to its state on the timeline, the content in the last."""
    states = [State.REQUESTED, State.INFLIGHT, State.COMPLETED]
    for state in states[: states.index(instant.state)]:
        earlier = Instant(instant.requested_at, instant.action, state)
        assert storage.put_if_absent(timeline_file(earlier.file_name), b"")
    assert storage.put_if_absent(timeline_file(instant.file_name), content)


def put_commit(
    storage: Storage,
    requested_at: int,
    completed_at: int,
    written: CommitMetadata,
    action: Action = Action.DELTACOMMIT,
) -> Instant:
    """Complete a write on the timeline."""
    at = completed(completed_at)
    instant = Instant(requested(requested_at), action, State.COMPLETED, at)
    replaces = action is Action.REPLACECOMMIT
    put_instant(storage, instant, encode_commit_metadata(written, replaces=replaces))
    return instant


class StillClock:
    """A clock that stands where it is put; waiting moves it."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def sleep(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


def still_world(now_ms: int = START_MS, seed: str = "seed") -> World:
    return World(StillClock(now_ms), SimEntropy(seed), Process("host", 1), Threads())


def clock_of(table: OpenTable) -> StillClock:
    clock = table.world.clock
    assert isinstance(clock, StillClock)
    return clock


SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("day", pa.string()),
    ]
)


def new_table(
    *,
    storage: Storage | None = None,
    schema: pa.Schema = SCHEMA,
    key: str = "id",
    partition_by: str = "day",
    ordering: str = "",
    table_type: str = "MERGE_ON_READ",
    buckets: int | None = 2,
    options: dict[str, object] | None = None,
    world: World | None = None,
) -> OpenTable:
    """A new table in memory, with a clock that stands still."""
    storage = storage or MemoryStorage()
    given: dict[str, object] = {
        "hoodie.table.name": "t",
        "hoodie.table.recordkey.fields": key,
        "hoodie.table.partition.fields": partition_by,
        "hoodie.table.ordering.fields": ordering,
        "hoodie.table.type": table_type,
    }
    if buckets is not None:
        given["hoodie.bucket.index.num.buckets"] = buckets
    settings = resolve(given | (options or {}), REGISTRY)
    config = plan_table(storage.root, schema, TableOptions.parse(settings))
    create_table(storage, config)
    return OpenTable(
        storage=storage,
        config=config,
        lock=ProcessLock(storage.root, 1_000),
        world=world or still_world(),
        write_options=WriteOptions.parse(settings),
        lock_options=LockOptions.parse(settings),
        sharing=SharingOptions.parse(settings),
        services=ServiceOptions.parse(settings),
        watch=Watch((world or still_world()).clock, 120_000),
    )


def rows(*given: tuple[str, int | None, str]) -> pa.Table:
    """Rows of `SCHEMA`: key, value, day."""
    columns = [list(column) for column in zip(*given, strict=True)] if given else [[], [], []]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


class WrappedStorage:
    """Another storage with every call recorded; `before` and `after` may raise at any call."""

    def __init__(self, inner: Storage | None = None) -> None:
        self.inner: Storage = inner or MemoryStorage()
        self.calls: list[tuple[str, str]] = []

    def before(self, op: str, path: str) -> None:
        """Called ahead of each effect."""

    def after(self, op: str, path: str) -> None:
        """Called once an effect has happened."""

    def _call(self, op: str, path: str, effect: Callable[[], T]) -> T:
        self.before(op, path)
        self.calls.append((op, path))
        result = effect()
        self.after(op, path)
        return result

    @property
    def root(self) -> str:
        return self.inner.root

    def read(self, path: str) -> bytes:
        return self._call("read", path, lambda: self.inner.read(path))

    def open_input(self, path: str) -> IO[bytes]:
        return self._call("open_input", path, lambda: self.inner.open_input(path))

    def info(self, path: str) -> FileInfo | None:
        return self._call("info", path, lambda: self.inner.info(path))

    def list_files(self, directory: str) -> list[FileInfo]:
        return self._call("list_files", directory, lambda: self.inner.list_files(directory))

    def walk(self, directory: str) -> list[FileInfo]:
        return self._call("walk", directory, lambda: self.inner.walk(directory))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._call("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def replace(self, path: str, data: bytes) -> None:
        self._call("replace", path, lambda: self.inner.replace(path, data))

    @contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        self.before("open_output", path)
        self.calls.append(("open_output", path))
        with self.inner.open_output(path) as sink:
            yield sink
        self.after("open_output", path)

    def delete(self, path: str) -> bool:
        return self._call("delete", path, lambda: self.inner.delete(path))

    def prune(self, directory: str) -> None:
        self.inner.prune(directory)


class FailingStorage(WrappedStorage):
    """Fails at chosen calls, before or after the effect, as a storage that loses messages does."""

    def __init__(self, inner: Storage | None = None) -> None:
        super().__init__(inner)
        self.fail_before: Callable[[str, str], bool] = lambda op, path: False
        self.fail_after: Callable[[str, str], bool] = lambda op, path: False

    def before(self, op: str, path: str) -> None:
        if self.fail_before(op, path):
            raise StorageError(f"{op} was lost on the way.", where=path)

    def after(self, op: str, path: str) -> None:
        if self.fail_after(op, path):
            raise StorageError(f"The reply to {op} was lost.", where=path)


def data_paths(storage: Storage) -> list[str]:
    """Every base and log file lying about, visible or not."""
    found = (file.path for file in storage.walk(""))
    return [
        path for path in found if ".parquet" in path or ".log." in path if ".hoodie/" not in path
    ]


def by_key(table: pa.Table, key: str = "id") -> dict[str, dict[str, object]]:
    """Rows by their key, which must be unique."""
    found = {row[key]: row for row in table.to_pylist()}
    assert len(found) == table.num_rows, "a key occurs twice"
    return found


def concat(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(list(batches), schema)
