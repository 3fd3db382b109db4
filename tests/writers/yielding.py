"""A play in which a clustering yields to ingestion: first ingestion alone, then beside a clustering
of the same file groups, then it pauses. Each has a core of its own, as if on another machine: what
is measured is how they get in each other's way on the table.

A table is loaded so that clustering it takes much longer than the time between two writes, each of
which comes to all of its file groups. What must hold does not depend on how fast the machine is.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import lentic
from lentic.format import layout
from lentic.format.names import State
from lentic.format.times import RequestedAt
from lentic.table import Table
from lentic.testing.checkers import list_leftovers
from lentic.timeline.instant import Instant
from tests.faults.waiting import until
from tests.writers.ballast import WIDE, Ballast, make_load
from tests.writers.clusterer import PLANNED, WORKED, WORKING
from tests.writers.conductor import Play, Player, Role
from tests.writers.history import Outcome, Write, writes_of
from tests.writers.ledger import BUSY, INTENT, OUTCOME, SERVICE, Entry, Ledger, load_entries
from tests.writers.workload import KEY, ORDERING, PARTITION, Shape, WriteId
from tests.writers.yield_report import Requests, watched

LOADER, WRITER = "load", "w0"
WARM_UP = 2
"""So many writes come first whenever a writer starts, and are not measured."""
PATIENCE_S = 300.0
_PER_FILE = 2


@dataclass(frozen=True, slots=True)
class Scene:
    """How large the table is, and how often it is written to. Two hot keys with their ballast make
    a file, two files the smallest plan."""

    shape: Shape
    ballast: Ballast
    every_s: float
    first: int = WARM_UP
    """So many writes come before all others, until there are as many commits as ever after."""

    @property
    def file_bytes(self) -> int:
        """What a file of the table takes, roughly: half of its text."""
        return _PER_FILE * self.ballast.rows * self.ballast.width // 2

    def load_options(self) -> dict[str, str]:
        return {
            "hoodie.copyonwrite.record.size.estimate": str(self.ballast.width // 2),
            "hoodie.parquet.max.file.size": str(self.file_bytes),
        }

    def write_options(self) -> dict[str, str]:
        """New keys get small files of their own; a write takes the longer, the more commits there
        are on the active timeline, so their number stays about the same."""
        return {
            "hoodie.parquet.small.file.limit": str(100_000),
            "lentic.write.exact_counts": "false",
            "hoodie.archive.automatic": "true",
            "hoodie.keep.min.commits": "11",
            "hoodie.keep.max.commits": "14",
        }

    def cluster_options(self) -> dict[str, str]:
        """As slow as it can be, in groups of two files."""
        group = "hoodie.clustering.plan.strategy.max.bytes.per.group"
        return {group: str(int(2.5 * self.file_bytes)), "hoodie.parquet.compression.codec": "gzip"}


def load_table(scene: Scene, play: Play) -> Table:
    """A new table with the ballast, and the ledger of whoever loaded it."""
    table = lentic.create(
        play.table,
        WIDE,
        key=KEY,
        partition_by=PARTITION,
        ordering=ORDERING,
        options=play.options | scene.load_options(),
    )
    write: WriteId = (LOADER, 0)
    rows = make_load(write, scene.shape, scene.ballast, play.seed)
    with writing(play, write) as told:
        commit = table.bulk_insert(rows, sort_by=KEY)
        told |= {"requested_at": str(commit.requested_at), "completed_at": str(commit.completed_at)}
    return table


@contextmanager
def writing(play: Play, write: WriteId) -> Iterator[dict[str, str]]:
    """A write by no player, in a ledger of its own; it must not fail."""
    told = {"requested_at": "", "completed_at": ""}
    ledger = Ledger(play.ledger(write[0]))
    ledger.add(INTENT, writer=write[0], seq=write[1])
    yield told
    outcome = {"outcome": Outcome.OK, "error": "", "aborted": False}
    ledger.add(OUTCOME, writer=write[0], seq=write[1], **told, **outcome)
    ledger.close()


# --- the play ---------------------------------------------------------------------------------


@dataclass
class Company:
    """The players of a play; none outlives the block."""

    play: Play
    scene: Scene
    requests: Requests
    players: list[Player] = field(default_factory=list)

    def start(self, role: Role) -> Player:
        player = Player(self.play, role)
        self.players.append(player)
        player.wait_until_ready()
        return player

    def start_writer(self) -> Player:
        """One that goes on with its ledger, if it was there before."""
        (self.play.folder / "pause").unlink(missing_ok=True)
        options = self.scene.write_options()
        every_s = self.scene.every_s
        role = Role(WRITER, "writer", every_s=every_s, options=options, stop="pause", core=0)
        is_first = not self.writes()
        writer = self.start(role)
        self.wait_for_writes(self.scene.first if is_first else WARM_UP)
        return writer

    def start_clusterer(self, name: str, engine: str = "local", **options: str) -> Player:
        told = self.scene.cluster_options() | options
        stop = f"{name}.stop"
        role = Role(name, "clusterer", engine, 0.1, options=told, stop=stop, core=1, tasks=2)
        return self.start(role)

    def pause_writer(self, writer: Player) -> None:
        (self.play.folder / "pause").touch()
        writer.wait_for_end()

    def end_clusterer(self, clusterer: Player) -> None:
        """It ends the plan it is at."""
        (self.play.folder / f"{clusterer.name}.stop").touch()
        clusterer.wait_for_end()

    def entries(self, player: Player) -> list[Entry]:
        return load_entries(player.ledger)

    def writes(self) -> tuple[Write, ...]:
        return writes_of(load_entries(self.play.ledger(WRITER)))

    def wait_for_writes(self, count: int) -> None:
        """Until so many writes have ended from now on."""
        goal = count + sum(1 for write in self.writes() if write.ended_ns)

        def look() -> bool:
            self.ensure_fine()
            return sum(1 for write in self.writes() if write.ended_ns) >= goal

        until(look, f"{count} writes", PATIENCE_S)

    def wait_for_outcome(self, clusterer: Player, outcome: str, count: int = 1) -> None:
        def look() -> bool:
            self.ensure_fine()
            told = [e for e in self.entries(clusterer) if e["kind"] == SERVICE]
            return sum(1 for entry in told if entry["outcome"] == outcome) >= count

        until(look, f"{count} clusterings to be {outcome}", PATIENCE_S)

    def wait_until_working(self, clusterer: Player, *, has_begun_file: bool = False) -> str:
        """Until it works on a plan, or has begun a file of it; the time of the plan."""

        def look() -> str | None:
            self.ensure_fine()
            at = self.working_on(clusterer)
            markers = Path(self.play.table) / layout.markers(RequestedAt(at))
            if has_begun_file and not any(markers.rglob("*.marker.*")):
                return None
            return at or None

        return until(look, "a clustering to be at work", PATIENCE_S)

    def working_on(self, clusterer: Player) -> str:
        """The plan that it works on; nothing if it does not."""
        told = [e for e in self.entries(clusterer) if e["kind"] in (PLANNED, WORKING, WORKED)]
        return str(told[-2]["at"]) if told and told[-1]["kind"] == WORKING else ""

    def freeze_at_work(self, clusterer: Player) -> str:
        """Stop it while it writes a file of a plan; the time of the plan."""
        while True:
            at = self.wait_until_working(clusterer, has_begun_file=True)
            clusterer.send(signal.SIGSTOP)
            if self.working_on(clusterer) == at:
                return at
            clusterer.send(signal.SIGCONT)  # it was faster

    def pass_time(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.ensure_fine()
            time.sleep(min(0.2, max(0.0, end - time.monotonic())))

    def ensure_fine(self) -> None:
        for player in self.players:
            player.ensure_fine()

    def ensure_not_busy(self) -> None:
        """Nobody was told to start over."""
        busy = [entry for entry in self.play.entries() if entry["kind"] == BUSY]
        assert not busy, busy[:3]


@contextmanager
def company(play: Play, scene: Scene) -> Iterator[Company]:
    with watched(play.table) as requests:
        players = Company(play, scene, requests)
        try:
            yield players
        finally:
            for player in players.players:
                player.kill()


def ensure_nothing_left(table: Table, plans: list[Instant]) -> None:
    """Of plans that were aborted there is the word that they were, and no file besides."""
    storage = table._opened.storage
    left = list_leftovers(storage)
    for plan in plans:
        kept = {
            layout.timeline_file(plan.file_name),
            layout.finalized(plan.requested_at),  # for attempts that wake up late
        }
        named = (file.path for file in storage.walk("") if plan.requested_at in file.path)
        left += [path for path in named if path not in kept]
    assert not left, left[:10]


def list_aborted(table: Table) -> list[Instant]:
    """Archived or not."""
    known = (*table.history(), *table.timeline())
    return [instant for instant in known if instant.state is State.ABORTED]
