"""Ingestion and a clustering of the same file groups, in processes of their own: ingestion wins.

`make test` plays it for seconds, `make cancel-soak` for minutes (`LENTIC_CANCEL_SOAK_S`) and with
Apache Hudi, and there the times that were measured must be good as well.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

import lentic
from lentic.format import layout
from tests.interop.operations import Shape as HudiShape
from tests.interop.readers import ApacheHudi
from tests.rfc.claims import says
from tests.writers.ballast import LOAD, WIDE, Ballast
from tests.writers.checker import check
from tests.writers.conductor import Play, load_history
from tests.writers.judge import ensure_hudi_agrees, ensure_sound
from tests.writers.ledger import load_entries
from tests.writers.test_sharing import MODE, OCC
from tests.writers.workload import ORDERING, Shape, WriteId, make_batch
from tests.writers.yield_report import ABORTED, COMMITTED, Report, times_of, tries_of
from tests.writers.yielding import (
    WRITER,
    Company,
    Scene,
    company,
    ensure_nothing_left,
    list_aborted,
    load_table,
    writing,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the /proc of Linux")

SOAK_S = float(os.environ.get("LENTIC_CANCEL_SOAK_S", "0"))
RATIO_MAX = 1.2
STOP_S_MAX = 5.0
SMALL = Scene(Shape(own=4, hot=8), Ballast(rows=1_500, width=2_000), every_s=0.5)
LARGE = Scene(Shape(own=6, hot=16), Ballast(rows=12_000, width=2_000), every_s=2.0, first=14)
CLUSTERER = "clusterer"
TURNS = 2
"""A machine may be slower minutes later, and more logs make writes slower: by turns both concern a
clustering and the quiet before and after it alike."""
HUDI: WriteId = ("hudi", 1_000)

Tell = Callable[[str], None]


def make_play(folder: Path, scene: Scene, duration_s: float, options: dict[str, str] = OCC) -> Play:
    ledgers = folder / "ledgers"
    ledgers.mkdir()
    return Play(str(folder / "table"), ledgers, (), duration_s, options=options, shape=scene.shape)


Phase = tuple[int, int]
"""From when to when, on the clock of the ledgers."""


@dataclass(frozen=True, slots=True)
class Times:
    """When ingestion was alone and when beside a clustering, by turns."""

    alone: tuple[Phase, ...]
    beside: tuple[Phase, ...]


def report(stage: Company, times: Times) -> Report:
    """What came of ingestion, and of the clusterings beside it."""
    entries = load_entries(stage.play.ledger(WRITER))
    alone = [times_of(entries, *phase) for phase in times.alone]
    beside = [times_of(entries, *phase) for phase in times.beside]
    tries = [
        one
        for player in stage.players
        if player.name.startswith(CLUSTERER)
        for one in tries_of(stage.entries(player), stage.requests)
    ]
    found = Report(
        tuple(tuple(took.at_work_s for took in phase) for phase in alone),
        tuple(tuple(took.at_work_s for took in phase) for phase in beside),
        waits=statistics.mean(took.waited_s for phase in alone + beside for took in phase),
        tries=tuple(tries),
        writes=stage.writes(),
    )
    assert not found.failures, found.failures[:3]
    stage.ensure_not_busy()
    return found


def yield_to_ingestion(
    stage: Company, *, alone_s: float, beside_s: float, engine: str = "local", turns: int = 1
) -> Times:
    """Ingestion alone, then beside a clustering that tries again and again, by turns; then it
    pauses. The last clustering has ended what it was at."""
    writer = stage.start_writer()
    alone, beside = [], []
    for turn in range(turns):
        begun_ns = time.monotonic_ns()
        stage.wait_for_writes(2)
        stage.pass_time(alone_s)
        alone.append((begun_ns, time.monotonic_ns()))
        clusterer = stage.start_clusterer(f"{CLUSTERER}-{turn}", engine)
        stage.wait_until_working(clusterer)
        begun_ns = time.monotonic_ns()
        stage.pass_time(beside_s)
        stage.wait_for_outcome(clusterer, ABORTED)
        stage.wait_until_working(clusterer)  # so that the last plan is one that gave way, too
        stage.wait_for_writes(2)
        beside.append((begun_ns, time.monotonic_ns()))
        stage.end_clusterer(clusterer)
    stage.pause_writer(writer)
    return Times(tuple(alone), tuple(beside))


def write_alone_again(stage: Company, times: Times, seconds: float) -> Times:
    writer = stage.start_writer()
    begun_ns = time.monotonic_ns()
    stage.pass_time(seconds)
    phase = (begun_ns, time.monotonic_ns())
    stage.pause_writer(writer)
    return replace(times, alone=(*times.alone, phase))


def cluster_in_peace(stage: Company) -> None:
    """Now that nobody writes it succeeds."""
    clusterer = stage.start_clusterer("later")
    stage.wait_for_outcome(clusterer, COMMITTED)
    stage.end_clusterer(clusterer)


# --- for seconds --------------------------------------------------------------------------------


@says("cancel.precedence", "cancel.flag.poll", "cancel.starve")
def test_a_clustering_yields_to_ingestion_and_succeeds_when_it_pauses(
    tmp_path: Path, tell: Tell
) -> None:
    play = make_play(tmp_path, SMALL, 60)
    table = load_table(SMALL, play)
    with company(play, SMALL) as stage:
        times = yield_to_ingestion(stage, alone_s=0, beside_s=1)
        found = report(stage, times)
        aborted = list_aborted(table)
        assert aborted
        ensure_nothing_left(table, aborted)
        cluster_in_peace(stage)
    tell(f"{found}; {ensure_sound(play, load_history(play), may_abort=False)}")


@says("cancel.clean.left")
def test_what_a_killed_clustering_left_is_aborted_by_the_next_clean(tmp_path: Path) -> None:
    """Cancelled, then killed: until its heartbeat has expired it counts as alive."""
    play = make_play(tmp_path, SMALL, 60)
    table = load_table(SMALL, play)
    with company(play, SMALL) as stage:
        clusterer = stage.start_clusterer(CLUSTERER)
        at = stage.freeze_at_work(clusterer)
        cancel_by_writing(play, table)
        clusterer.kill()
    table.clean()
    assert [str(i.requested_at) for i in table.timeline() if i.is_pending] == [at]
    table.clean(wait=True)
    assert [str(instant.requested_at) for instant in list_aborted(table)] == [at]
    ensure_nothing_left(table, list_aborted(table))
    ensure_seen(play, table)
    assert isinstance(table.cluster(sort_by="id"), lentic.Committed)
    ensure_seen(play, table)


@says("C1", "C11")
def test_a_clustering_that_wakes_up_after_it_was_aborted_leaves_nothing(tmp_path: Path) -> None:
    """Frozen, cancelled, taken for dead and aborted by a clean; then it goes on."""
    play = make_play(tmp_path, SMALL, 60)
    table = load_table(SMALL, play)
    with company(play, SMALL) as stage:
        clusterer = stage.start_clusterer(CLUSTERER)
        at = stage.freeze_at_work(clusterer)
        cancel_by_writing(play, table)
        table.clean(wait=True)
        assert [str(instant.requested_at) for instant in list_aborted(table)] == [at]
        (play.folder / f"{CLUSTERER}.stop").touch()
        clusterer.send(signal.SIGCONT)
        clusterer.wait_for_end()
    ensure_nothing_left(table, list_aborted(table))
    ensure_seen(play, table)


def cancel_by_writing(play: Play, table: lentic.Table) -> None:
    """A write to all file groups, which nobody holds up."""
    (plan,) = (instant for instant in table.timeline() if instant.is_pending)
    with writing(play, ("hand", 0)) as told:
        commit = table.upsert(make_batch(("hand", 0), play.shape))
        told |= {"requested_at": str(commit.requested_at), "completed_at": str(commit.completed_at)}
    assert (Path(table.path) / layout.cancel_request(plan.requested_at)).exists()


def ensure_seen(play: Play, table: lentic.Table) -> None:
    """No write is lost, none is there twice, and the table is sound."""
    assert check(load_history(play)) == []
    assert table.verify() == []


# --- for minutes --------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.skipif(not SOAK_S, reason="only with `make cancel-soak`")
class TestSoak:
    """The same for as long as one likes, and with Apache Hudi right after the abort."""

    @pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
    def test_ingestion_beside_a_clustering_of_its_file_groups(
        self, engine: str, tmp_path: Path, apache_hudi: ApacheHudi, tell: Tell
    ) -> None:
        # Hearts beat as by default: on a busy machine nobody is to be taken for dead.
        play = make_play(tmp_path, LARGE, SOAK_S, {MODE: OCC[MODE]})
        table = load_table(LARGE, play)
        with company(play, LARGE) as stage:
            times = yield_to_ingestion(
                stage, alone_s=SOAK_S / 3, beside_s=SOAK_S, engine=engine, turns=TURNS
            )
            ensure_nothing_left(table, list_aborted(table))
            ensure_hudi_agrees(play, apache_hudi, with_ties=False)
            write_with_hudi(play, table, apache_hudi)
            ensure_hudi_agrees(play, apache_hudi, with_ties=False)
            times = write_alone_again(stage, times, SOAK_S / 3)
            cluster_in_peace(stage)
            found = report(stage, times)
        tell(str(found))
        tell(ensure_sound(play, load_history(play), may_abort=False))
        ensure_hudi_agrees(play, apache_hudi, with_ties=True)
        assert found.slowest_stop_s <= STOP_S_MAX
        assert found.ratio <= RATIO_MAX


def write_with_hudi(play: Play, table: lentic.Table, hudi: ApacheHudi) -> None:
    """A write as any other, by Apache Hudi."""
    rows = make_batch(HUDI, play.shape)
    rows = rows.append_column(WIDE.field(LOAD), pa.nulls(rows.num_rows, pa.string()))
    options = HudiShape("MERGE_ON_READ", None, ORDERING).hudi_options("upsert")
    with writing(play, HUDI) as told:
        hudi.write(play.table, rows, options | {"hoodie.table.name": table.config.name})
        newest = max(table.timeline(), key=lambda instant: str(instant.completed_at or ""))
        told |= {"requested_at": str(newest.requested_at), "completed_at": str(newest.completed_at)}
