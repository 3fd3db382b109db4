"""The sweep of orphans: only what nobody can ever name, and only when it is old."""

from __future__ import annotations

import pytest

from lentic.engine import LocalEngine
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.plans import RollbackPlan, encode_rollback_plan
from lentic.services.orphans import sweep_orphans
from lentic.storage.memory import MemoryStorage
from lentic.table import Table
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable, transaction
from lentic.write import markers
from tests.rfc.claims import says
from tests.unit.builders import StillClock, WrappedStorage, data_paths, new_table, rows, still_world

HOUR_MS = 3_600_000
STRAY = "f0000000-0000-0000-0000-000000000000-0_9-9-9"


class Case:
    """A table on a storage with a clock of its own, which is a day ahead of the table's."""

    def __init__(
        self,
        table_type: str = "COPY_ON_WRITE",
        lead_ms: int = 24 * HOUR_MS,
        buckets: int | None = 2,
        **options: object,
    ) -> None:
        world = still_world()
        assert isinstance(world.clock, StillClock)
        self.clock, self.lead_ms = world.clock, lead_ms
        storage = WrappedStorage(MemoryStorage(lambda: self.clock.ms + lead_ms))
        self.opened: OpenTable = new_table(
            storage=storage, world=world, table_type=table_type, buckets=buckets, options=options
        )
        self.storage = storage
        self.table = Table(self.opened, LocalEngine(threads=1))
        self.first = self.table.upsert(rows(("a", 1, "d")))

    def put(self, at: str, name: str = STRAY) -> str:
        path = f"d/{name}_{at}.parquet"
        self.storage.put_if_absent(path, b"x")
        return path

    def pending(self) -> str:
        with transaction(self.opened) as txn:
            return txn.start(txn.request(Action.COMMIT)).requested_at

    def swept(self) -> tuple[str, ...]:
        named = set(data_paths(self.storage))
        swept = sweep_orphans(self.opened)
        assert set(data_paths(self.storage)) == named - set(swept)
        note = self.storage.info(layout.SWEEP)
        assert note is not None and note.modified_ms == self.clock.ms + self.lead_ms
        return swept


@says("R5")
def test_what_a_commit_does_not_name_goes_after_an_hour() -> None:
    case = Case()
    stray = case.put(case.first.requested_at)
    assert case.swept() == ()
    case.clock.ms += HOUR_MS
    assert case.swept() == ()
    case.clock.ms += 1
    assert case.swept() == (stray,)
    assert case.table.read().num_rows == 1


def test_a_long_heartbeat_makes_it_wait_longer() -> None:
    world = still_world()
    assert isinstance(world.clock, StillClock)
    clock = world.clock
    storage = MemoryStorage(lambda: clock.ms)
    long = {"hoodie.client.heartbeat.interval_in_ms": HOUR_MS}
    opened = new_table(storage=storage, world=world, options=long)
    done = Table(opened, LocalEngine(threads=1)).upsert(rows(("a", 1, "d")))
    storage.put_if_absent(f"d/{STRAY}_{done.requested_at}.parquet", b"x")
    clock.ms += 2 * opened.pulse.ttl_ms
    assert sweep_orphans(opened) == ()
    clock.ms += 1
    assert len(sweep_orphans(opened)) == 1


def test_files_of_an_instant_that_was_taken_off_the_timeline_go() -> None:
    case = Case()
    at = case.pending()
    stray = case.put(at)
    with transaction(case.opened) as txn:
        txn.remove(txn.timeline.pending()[0])
    case.clock.ms += 2 * HOUR_MS
    assert case.swept() == (stray,)


def test_files_of_a_pending_instant_stay_however_old() -> None:
    case = Case()
    case.put(case.pending())
    case.clock.ms += 1000 * HOUR_MS
    assert case.swept() == ()


def test_files_of_an_instant_that_has_markers_are_left_to_its_own_clean_up() -> None:
    case = Case()
    path = case.put(case.first.requested_at)
    markers.announce(case.storage, case.first.requested_at, path, "CREATE")
    case.clock.ms += 2 * HOUR_MS
    assert case.swept() == ()


def test_files_that_a_pending_rollback_names_are_left_to_it() -> None:
    case = Case()
    at = case.pending()
    path = case.put(at)
    with transaction(case.opened) as txn:
        (instant,) = txn.timeline.pending()
        plan = RollbackPlan(instant.requested_at, Action.COMMIT, (path,))
        txn.request(Action.ROLLBACK, encode_rollback_plan(plan, case.storage.root))
        txn.remove(instant)
    case.clock.ms += 2 * HOUR_MS
    assert case.swept() == ()


def test_files_older_than_all_that_is_known_stay() -> None:
    case = Case()
    case.put("20200101000000000")
    case.clock.ms += 2 * HOUR_MS
    assert case.swept() == ()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_what_commits_name_stays_and_so_does_what_is_no_data_file(table_type: str) -> None:
    case = Case(table_type)
    case.table.upsert(rows(("a", 2, "d"), ("b", 2, "e")))
    case.table.compact() if table_type == "MERGE_ON_READ" else None
    case.storage.put_if_absent("d/notes.txt", b"x")
    case.storage.put_if_absent("d/part-0.parquet", b"x")
    case.clock.ms += 1000 * HOUR_MS
    assert case.swept() == ()
    assert load_timeline(case.storage).pending() == ()


def test_a_plan_that_ends_during_the_look_is_no_reason_to_give_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case(buckets=None, **{"hoodie.parquet.small.file.limit": 0})
    case.table.upsert(rows(("b", 1, "d")))
    at = case.table.schedule("clustering", sort_by="v", cancellable=True)
    assert at is not None
    stray = case.put(case.first.requested_at)
    case.clock.ms += 2 * HOUR_MS
    ended = []

    def end(op: str, path: str) -> None:
        if (op, path) == ("list_files", layout.TIMELINE) and not ended:
            ended.append(at)
            case.table.request_cancel(at)
            case.table.execute_abort(at)

    monkeypatch.setattr(case.storage, "after", end)
    assert case.swept() == (stray,)
    assert ended


# --- how often ----------------------------------------------------------------------------------


def _walks(case: Case) -> int:
    """How often all of the table was listed since the last time that was asked."""
    count = case.storage.calls.count(("walk", ""))
    case.storage.calls.clear()
    return count


def test_a_clean_lists_the_whole_table_once_an_hour_at_most() -> None:
    """A table may have 640,000 partitions, and be cleaned after each commit."""
    case = Case(lead_ms=0, **{"hoodie.clean.commits.retained": 1})
    stray = case.put(case.first.requested_at)
    case.table.clean()  # the first plan of a service looks at everything, too
    _walks(case)
    for minute in range(1, 60):
        case.clock.ms += 60_000
        case.table.upsert(rows(("a", minute, "d")))
        case.table.clean()
    assert _walks(case) == 1, "by the one plan of fifty that looks at everything"
    assert case.storage.info(stray) is not None
    case.clock.ms += 60_001
    case.table.clean()
    assert _walks(case) == 1
    assert case.storage.info(stray) is None


def test_a_clean_that_waits_sweeps_in_any_case() -> None:
    case = Case(lead_ms=0)
    stray = case.put(case.first.requested_at)
    case.clock.ms += HOUR_MS
    case.table.clean()
    case.clock.ms += 60_000
    case.table.clean()
    assert case.storage.info(stray) is not None
    case.table.clean(wait=True)
    assert case.storage.info(stray) is None


@pytest.mark.parametrize("lead_ms", [-24 * HOUR_MS, 24 * HOUR_MS])
def test_where_clocks_disagree_sweeps_come_too_often_rather_than_never(lead_ms: int) -> None:
    case = Case(lead_ms=lead_ms)
    for _ in range(2):
        case.table.clean()
        _walks(case)
    case.table.clean()
    assert _walks(case) == 1


def test_how_often_is_an_option_and_so_is_never() -> None:
    case = Case(lead_ms=0, **{"lentic.clean.sweep_interval_minutes": 0})
    case.table.clean()
    _walks(case)
    case.table.clean()
    assert _walks(case) == 1
    never = Case(lead_ms=0, **{"lentic.clean.sweep_orphans": False})
    never.table.clean(wait=True)
    assert never.storage.info(layout.SWEEP) is None
