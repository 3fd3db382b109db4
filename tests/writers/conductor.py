"""The conductor: starts players on one table, harms some of them, and tells what happened.

Every process it starts carries a word in its environment that no other has, so that a player is
stopped, continued or killed with all its children (the JVM and workers of Spark), and nobody else.
None outlives `perform`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import lentic
from lentic.format.names import Action
from lentic.table import Table
from tests.faults.processes import MARK, list_marked, send
from tests.faults.waiting import until
from tests.writers import history as told
from tests.writers.history import History, Instant, Outcome, Sight
from tests.writers.ledger import (
    FROZEN,
    INTENT,
    KILLED,
    OUTCOME,
    READY,
    SERVICE,
    SIGHT,
    Entry,
    Ledger,
    load_entries,
)
from tests.writers.part import Part
from tests.writers.reader import newest, see
from tests.writers.workload import Shape

ROOT = Path(__file__).resolve().parents[2]
START_S, END_S = 120.0, 120.0
"""How long players may take to open the table, and to end when they are told to."""
_LOG_TAIL = 4000


@dataclass(frozen=True, slots=True)
class Role:
    """A player to be: `module` is writer, compactor, clusterer or reader. It plays until there is a
    file `stop` in the play's folder."""

    name: str
    module: str
    engine: str = "local"
    pace_s: float = 0.05
    every_s: float = 0.0
    options: dict[str, str] = field(default_factory=dict)
    stop: str = "stop"
    core: int | None = None
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class Freeze:
    """Stop a player, a writer in the middle of a write, and let it go on later."""

    name: str
    at_s: float
    for_s: float


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill a player, a writer in the middle of a write, and start it anew."""

    name: str
    at_s: float


Event = Freeze | Kill


@dataclass(frozen=True, slots=True)
class Play:
    """Who does what to which table, for how long. `folder` is outside the table."""

    table: str
    folder: Path
    roles: tuple[Role, ...]
    duration_s: float
    events: tuple[Event, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    shape: Shape = field(default_factory=Shape)
    seed: int = 0
    patience_s: float = 0.0
    """After so long everybody knows of a dead writer that it is dead."""
    rereads: int = 40
    """How many of the moments that were read are read once more at the end, at most."""

    @property
    def longest_s(self) -> float:
        """After so long every process ends by itself, whatever happens."""
        frozen = sum(event.for_s for event in self.events if isinstance(event, Freeze))
        return START_S + 2 * self.duration_s + frozen + END_S

    def ledger(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def entries(self) -> list[Entry]:
        """All that all ledgers say."""
        return [e for path in sorted(self.folder.glob("*.jsonl")) for e in load_entries(path)]


class Player:
    """A running player. It may be started again when it has been killed."""

    def __init__(self, play: Play, role: Role) -> None:
        self.name = role.name
        self.ledger = play.ledger(role.name)
        self._role = role
        self._log = play.folder / f"{role.name}.log"
        self._mark = str(uuid.uuid4())
        self._part = Part(
            name=role.name,
            table=play.table,
            ledger=str(self.ledger),
            stop=str(play.folder / role.stop),
            options=play.options | role.options,
            engine=role.engine,
            duration_s=play.longest_s,
            pace_s=role.pace_s,
            every_s=role.every_s,
            core=role.core,
            tasks=role.tasks,
            shape=play.shape,
        )
        self._starts = 0
        self.start()

    def start(self) -> None:
        """Start, or start anew."""
        self._starts += 1
        module = f"tests.writers.{self._role.module}"
        paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, self._part.to_json()],
                cwd=ROOT,
                env={**os.environ, MARK: self._mark, "PYTHONPATH": paths},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Wait until the table is open there."""

        def look() -> bool:
            self.ensure_fine()
            ready = [entry for entry in load_entries(self.ledger) if entry["kind"] == READY]
            return len(ready) >= self._starts

        until(look, f"{self.name} to open the table", START_S)

    def wait_until_writing(self) -> None:
        """Wait until it has said what it means to write, and not yet what came of it. Others than
        writers are always about something."""

        def look() -> bool:
            self.ensure_fine()
            if self._role.module != "writer":
                return True
            acts = [e for e in load_entries(self.ledger) if e["kind"] in (INTENT, OUTCOME)]
            return bool(acts) and acts[-1]["kind"] == INTENT

        until(look, f"{self.name} to write", END_S)

    def wait_for_progress(self, since_ns: int) -> None:
        """Wait until something that it began after this moment has come to a good end."""

        def look() -> bool:
            self.ensure_fine()
            late = [e for e in load_entries(self.ledger) if e["ns"] > since_ns]
            begun = {e["seq"] for e in late if e["kind"] == INTENT}
            done = {e["seq"] for e in late if e.get("outcome") == Outcome.OK}
            return bool(begun & done) or any(e["kind"] in (SERVICE, SIGHT) for e in late)

        until(look, f"{self.name} to come to something", END_S)

    def send(self, number: signal.Signals) -> None:
        """Signal it with all its children."""
        send(list_marked(self._mark), number)

    def kill(self) -> None:
        """End it at once, so that no part of it sees another end."""
        self.send(signal.SIGSTOP)
        self.send(signal.SIGKILL)
        self._process.wait(END_S)
        until(lambda: not list_marked(self._mark), f"{self.name} to be gone", END_S)

    def wait_for_end(self) -> None:
        """Wait until it has ended by itself, and well."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        assert self._process.returncode == 0, f"{self._process.returncode}\n{self.last_words()}"

    def ensure_fine(self) -> None:
        """It must not have ended by an error."""
        assert self._process.poll() in (None, 0), self.last_words()

    def last_words(self) -> str:
        return f"{self.name} said: {self._log.read_text(errors='replace')[-_LOG_TAIL:]}"


def perform(play: Play, before_end: Callable[[], object] = lambda: None) -> History:
    """Play it, and tell what happened once everybody has ended.

    `before_end` is called when all harm is done. Everybody must then come to something once more.
    """
    ledger = Ledger(play.ledger("conductor"))
    players: dict[str, Player] = {}
    try:
        for role in play.roles:
            players[role.name] = Player(play, role)
        for player in players.values():
            player.wait_until_ready()
        _harm(play, players, ledger)
        before_end()
        harmed_ns = time.monotonic_ns()
        for player in players.values():
            player.wait_for_progress(harmed_ns)
        (play.folder / "stop").touch()
        for player in players.values():
            player.wait_for_end()
    finally:
        for player in players.values():
            player.kill()
        ledger.close()
    return load_history(play)


def _harm(play: Play, players: dict[str, Player], ledger: Ledger) -> None:
    """Let the time pass, and the events happen when they are due."""
    chance = random.Random(play.seed)
    start = time.monotonic()
    for event in sorted(play.events, key=lambda event: event.at_s):
        _pass_time(start + event.at_s, players.values())
        player = players[event.name]
        player.wait_until_writing()
        time.sleep(chance.uniform(0, 0.1))  # anywhere in the write
        if isinstance(event, Kill):
            player.kill()
            ledger.add(KILLED, writer=event.name)
            player.start()
            player.wait_until_ready()
        else:
            from_ns = time.monotonic_ns()
            player.send(signal.SIGSTOP)
            others = [other for other in players.values() if other is not player]
            _pass_time(time.monotonic() + event.for_s, others)
            player.send(signal.SIGCONT)
            frozen = {"from_ns": from_ns, "to_ns": time.monotonic_ns()}
            ledger.add(FROZEN, writer=event.name, **frozen)
    _pass_time(start + play.duration_s, players.values())


def _pass_time(until_s: float, players: Iterable[Player]) -> None:
    while (left := until_s - time.monotonic()) > 0:
        for player in players:
            player.ensure_fine()
        time.sleep(min(left, 0.2))


def load_history(play: Play) -> History:
    """What the ledgers say, and what the table says now that all have ended."""
    table = lentic.open(play.table, options=play.options)
    entries = play.entries()
    sights = told.sights_of(entries)
    return History(
        shape=play.shape,
        writes=told.writes_of(entries),
        last=look_at(table, newest(table), "last"),
        sights=(*sights, *reread(table, sights, play.rereads)),
        windows=told.windows_of(entries),
        instants=load_instants(table),
        freezes=told.freezes_of(entries),
    )


def look_at(table: Table, at: str, reader: str) -> Sight:
    """The table at a moment, whenever that was: no earlier read is older, to this reader."""
    return Sight(reader, 0, at, at, see(table, at or None))


def reread(table: Table, sights: Sequence[Sight], most: int) -> list[Sight]:
    """The moments that were read, or as many as can be afforded, read once more."""
    moments = sorted({sight.floor for sight in sights if sight.is_exact})
    step = -(-len(moments) // most) or 1
    return [look_at(table, at, "reread") for at in moments[::step]]


def load_instants(table: Table) -> tuple[Instant, ...]:
    """The writes on the timeline; compactions and rollbacks are none."""
    known = {i.requested_at: i for i in (*table.history(), *table.timeline())}
    return tuple(
        Instant(str(i.requested_at), str(i.completed_at or ""))
        for i in known.values()
        if i.action is Action.DELTACOMMIT
    )
