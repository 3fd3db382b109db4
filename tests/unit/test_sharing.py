"""Several writers on one table, step by step: who commits, who starts over, who is given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
from lentic.config.sharing import SharingOptions
from lentic.coordination.heartbeat import Watch, load_heartbeat
from lentic.engine import LocalEngine
from lentic.errors import Conflict, HeartbeatLost, InstantCancelled, PlanBusy, WriteConflict
from lentic.format import layout
from lentic.format.names import Action
from lentic.ingest.operations import write_rows
from lentic.services.compaction import execute_compaction, schedule_compaction
from lentic.services.failed_writes import clean_up_failed_writes, roll_back_expired
from lentic.services.outcome import AlreadyCommitted, Committed
from lentic.table import Table
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.world import Threads
from lentic.write.operations import Operation
from tests.rfc.claims import says
from tests.unit.builders import new_table, rows, still_world

OCC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
NBCC = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": 3}
EARLY = {"hoodie.write.concurrency.early.conflict.detection.enable": "true"}
TTL_S = 120


class _Clock:
    """Time that passes by sleeping, and a little with every look at the wall."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0

    def now_ms(self) -> int:
        self.looks += 1
        return 1_767_225_600_000 + self.looks

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _table(options: dict[str, Any], **shape: Any) -> OpenTable:
    world = replace(still_world(), clock=_Clock(), background=Threads())
    table = new_table(options=options, world=world, ordering="v", **shape)
    return replace(table, watch=Watch(world.clock, TTL_S * 1000))


def _also(table: OpenTable, options: dict[str, Any]) -> OpenTable:
    """The same table, as another process has it open."""
    sharing = SharingOptions.parse(resolve(options, REGISTRY))
    return replace(table, sharing=sharing, watch=Watch(table.world.clock, TTL_S * 1000))


class _Meanwhile(LocalEngine):
    """An engine that lets something happen after its work is done and before the commit."""

    def __init__(self, act: Any, times: int = 1) -> None:
        super().__init__(threads=1)
        object.__setattr__(self, "act", act)
        object.__setattr__(self, "left", [None] * times)

    __slots__ = ("act", "left")

    def shuffle(self, source: Any, shuffle: Any) -> list[str]:
        done = super().shuffle(source, shuffle)
        if self.left:
            self.left.pop()
            self.act()
        return done


def _write(table: OpenTable, given: pa.Table, engine: LocalEngine | None = None) -> Any:
    return write_rows(table, engine or LocalEngine(threads=1), given, Operation.UPSERT)


def _read(table: OpenTable) -> dict[str, int]:
    found = Table(table, LocalEngine(threads=1)).read().to_pylist()
    assert len({row["id"] for row in found}) == len(found), found
    return {row["id"]: row["v"] for row in found}


@says("rfc66.occ.buckets")
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_of_two_optimistic_writers_in_one_group_the_later_one_starts_over(
    table_type: str,
) -> None:
    table = _table(OCC, table_type=table_type, buckets=1)
    other = _also(table, OCC)
    engine = _Meanwhile(lambda: _write(other, rows(("b", 2, "d"))))
    with pytest.raises(WriteConflict, match="for example d/"):
        _write(table, rows(("a", 1, "d")), engine)
    assert _read(table) == {"b": 2}
    assert load_timeline(table.storage).pending() == ()


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_writer_that_lost_starts_over_by_itself_as_often_as_it_is_allowed(
    table_type: str,
) -> None:
    table = _table(OCC | RETRIES, table_type=table_type, buckets=1)
    other, numbers = _also(table, OCC), iter(range(10))
    act = lambda: _write(other, rows((f"o{next(numbers)}", 2, "d")))  # noqa: E731
    _write(table, rows(("a", 1, "d")), _Meanwhile(act, times=3))
    assert _read(table) == {"a": 1, "o0": 2, "o1": 2, "o2": 2}
    with pytest.raises(WriteConflict):
        _write(table, rows(("b", 1, "d")), _Meanwhile(act, times=4))
    assert "b" not in _read(table)


def test_rows_that_can_be_read_once_are_kept_for_the_next_try() -> None:
    table = _table(OCC | RETRIES, table_type="COPY_ON_WRITE", buckets=1)
    other = _also(table, OCC)
    reader = pa.RecordBatchReader.from_batches(
        rows(("a", 1, "d")).schema, rows(("a", 1, "d")).to_batches()
    )
    _write(table, reader, _Meanwhile(lambda: _write(other, rows(("b", 2, "d")))))
    assert _read(table) == {"a": 1, "b": 2}


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_without_buckets_the_same_new_key_is_never_placed_twice(table_type: str) -> None:
    table = _table(OCC, table_type=table_type, buckets=None)
    _write(table, rows(("z", 0, "other")))
    other = _also(table, OCC)
    engine = _Meanwhile(lambda: _write(other, rows(("k", 2, "d"))))
    with pytest.raises(WriteConflict):
        _write(table, rows(("k", 1, "d")), engine)
    assert _read(table) == {"k": 2, "z": 0}


@says("rfc66.nbcc")
def test_writers_that_never_wait_both_stay() -> None:
    table = _table(NBCC, buckets=1)
    other = _also(table, NBCC)
    engine = _Meanwhile(lambda: _write(other, rows(("a", 3, "d"), ("b", 2, "d"))))
    _write(table, rows(("a", 1, "d"), ("c", 1, "d")), engine)
    assert _read(table) == {"a": 3, "b": 2, "c": 1}


@says("rfc79.abstract.beside")
def test_a_compaction_planned_and_done_while_writers_run_leaves_their_logs_for_the_next() -> None:
    table = _table(NBCC, buckets=1)
    _write(table, rows(("a", 1, "d")))
    other = _also(table, NBCC)

    def compact() -> None:
        at = schedule_compaction(other)
        assert at is not None
        assert isinstance(execute_compaction(other, LocalEngine(threads=1), at), Committed)

    _write(table, rows(("a", 2, "d"), ("b", 2, "d")), _Meanwhile(compact))
    assert _read(table) == {"a": 2, "b": 2}
    compact()
    assert _read(table) == {"a": 2, "b": 2}


def test_optimistic_writers_give_way_to_compactions_only_where_they_rewrite() -> None:
    table = _table(OCC, buckets=1)
    _write(table, rows(("a", 1, "d")))

    def compact() -> None:
        at = schedule_compaction(table)
        assert at is not None
        execute_compaction(table, LocalEngine(threads=1), at)

    _write(table, rows(("b", 2, "d")), _Meanwhile(compact))
    assert _read(table) == {"a": 1, "b": 2}


# --- early conflicts ----------------------------------------------------------------------------


def test_the_later_of_two_gives_way_before_it_writes() -> None:
    table = _table(OCC | EARLY, table_type="COPY_ON_WRITE", buckets=1)
    other, tried = _also(table, OCC | EARLY), []

    def meanwhile() -> None:
        with pytest.raises(WriteConflict, match="began earlier") as caught:
            _write(other, rows(("b", 2, "d")))
        tried.append(caught.value)

    _write(table, rows(("a", 1, "d")), _Meanwhile(meanwhile))
    assert tried and _read(table) == {"a": 1}


def test_the_dead_do_not_make_the_living_give_way() -> None:
    table = _table(OCC | EARLY, table_type="COPY_ON_WRITE", buckets=1)
    other = _also(table, OCC | EARLY)

    def meanwhile() -> None:
        for file in table.storage.list_files(layout.HEARTBEATS):
            table.storage.delete(file.path)
        _write(other, rows(("b", 2, "d")))

    with pytest.raises(WriteConflict, match="for example"):
        _write(table, rows(("a", 1, "d")), _Meanwhile(meanwhile))
    assert _read(table) == {"b": 2}


# --- the dead -----------------------------------------------------------------------------------


def _die(table: OpenTable, given: pa.Table) -> None:
    """Begin a write and never come back, as if killed."""

    class Killed(BaseException):
        pass

    def die() -> None:
        raise Killed

    with pytest.raises(Killed):
        _write(table, given, _Meanwhile(die))


@says("rfc79.heartbeat.lazy", "N8")
def test_n8_only_who_gave_no_sign_for_a_time_to_live_is_given_up() -> None:
    table = _table(NBCC, buckets=1)
    observer = _also(table, NBCC)
    _die(table, rows(("a", 1, "d")))
    (dead,) = load_timeline(table.storage).pending(Action.DELTACOMMIT)
    table.storage.replace(layout.heartbeat(dead.requested_at), b"last words")
    assert roll_back_expired(observer) == ()
    table.world.clock.sleep(TTL_S - 1)
    assert clean_up_failed_writes(observer) == ()
    table.storage.replace(layout.heartbeat(dead.requested_at), b"alive after all")
    table.world.clock.sleep(TTL_S - 1)
    assert clean_up_failed_writes(observer) == ()
    table.world.clock.sleep(TTL_S)
    assert clean_up_failed_writes(observer) == (dead,)
    assert load_timeline(table.storage).pending() == ()
    assert roll_back_expired(observer) == ()
    assert table.storage.list_files(layout.HEARTBEATS) == []


def test_who_waits_learns_it_in_one_call() -> None:
    table = _table(NBCC, buckets=1)
    _die(table, rows(("a", 1, "d")))
    (dead,) = load_timeline(table.storage).pending(Action.DELTACOMMIT)
    assert roll_back_expired(_also(table, NBCC), waits=True) == (dead,)


@says("N8")
def test_a_writer_that_was_given_up_commits_nothing_when_it_wakes() -> None:
    table = _table(NBCC, buckets=1)
    observer = _also(table, NBCC)

    def give_up() -> None:
        (sleeper,) = load_timeline(table.storage).pending(Action.DELTACOMMIT)
        roll_back_expired(observer)
        table.world.clock.sleep(TTL_S)
        assert roll_back_expired(observer) == (sleeper,)

    with pytest.raises(Conflict):
        _write(table, rows(("a", 1, "d")), _Meanwhile(give_up))
    assert _read(table) == {}
    assert [f for f in table.storage.walk("d") if not f.name.startswith(".hoodie")] == []


@says("rfc79.heartbeat.inference")
def test_a_live_writer_of_many_is_not_rolled_back_by_the_next_one() -> None:
    table = _table(NBCC, buckets=1)
    other = _also(table, NBCC)
    _write(table, rows(("a", 1, "d")), _Meanwhile(lambda: _write(other, rows(("b", 1, "d")))))
    assert _read(table) == {"a": 1, "b": 1}


def test_a_writer_whose_heart_stopped_stops_and_says_so() -> None:
    table = _table(NBCC, buckets=2)

    class Failing(_Meanwhile):
        __slots__ = ()

        def shuffle(self, source: Any, shuffle: Any) -> list[str]:
            table.world.clock.sleep(TTL_S)
            raise RuntimeError("the job was stopped")

    with pytest.raises(HeartbeatLost, match="could not be renewed"):
        _write(table, rows(("a", 1, "d")), Failing(lambda: None))
    assert load_timeline(table.storage).pending() == ()


# --- plans --------------------------------------------------------------------------------------


def _planned(table: OpenTable) -> Any:
    _write(table, rows(("a", 1, "d")))
    at = schedule_compaction(table)
    assert at is not None
    return at


class _At(LocalEngine):
    """An engine that lets something happen before its work."""

    __slots__ = ("act",)

    def __init__(self, act: Any) -> None:
        super().__init__(threads=1)
        object.__setattr__(self, "act", act)

    def run(self, work: Any, tasks: Any, stage: Any = None) -> list[str]:
        self.act()
        return super().run(work, tasks, stage)


@says("rfc79.heartbeat.inference", "rfc79.design.others")
def test_a_plan_that_somebody_executes_is_busy() -> None:
    table = _table(NBCC, buckets=1)
    at, other = _planned(table), _also(table, NBCC)
    beats = iter(range(100))

    def meanwhile() -> None:
        # As the heart of a living executor would, while the other one looks.
        sleep = other.world.clock.sleep

        def sleeping(seconds: float) -> None:
            sleep(seconds)
            table.storage.replace(layout.heartbeat(at), b"%d" % next(beats))

        other.world.clock.sleep = sleeping  # type: ignore[method-assign]
        with pytest.raises(PlanBusy, match="being executed"):
            execute_compaction(other, LocalEngine(threads=1), at)

    assert isinstance(execute_compaction(table, _At(meanwhile), at), Committed)
    assert isinstance(execute_compaction(other, LocalEngine(threads=1), at), AlreadyCommitted)
    assert _read(table) == {"a": 1}


@says("G1")
def test_g1_whoever_slept_while_the_plan_was_taken_over_completes_nothing() -> None:
    table = _table(NBCC, buckets=1)
    at, other = _planned(table), _also(table, NBCC)

    def take_over() -> None:
        assert load_heartbeat(table.storage, at)
        assert isinstance(execute_compaction(other, LocalEngine(threads=1), at), Committed)

    assert isinstance(execute_compaction(table, _At(take_over), at), AlreadyCommitted)
    assert _read(table) == {"a": 1}
    done = load_timeline(table.storage).completed(Action.COMMIT)
    assert [i.requested_at for i in done] == [at]


@says("G1")
def test_g1_the_guard_alone_stops_a_sleeper_whatever_the_heartbeat_says() -> None:
    table = _table(NBCC, buckets=1)
    at = _planned(table)

    def somebody_took_the_guard() -> None:
        table.storage.put_if_absent(layout.guard(at, 99), b"")

    with pytest.raises(InstantCancelled, match="taken over"):
        execute_compaction(table, _At(somebody_took_the_guard), at)
    assert load_timeline(table.storage).completed(Action.COMMIT) == ()
    assert isinstance(execute_compaction(table, LocalEngine(threads=1), at), Committed)
    assert _read(table) == {"a": 1}
