"""Processes of `lentic serve` on tables under ingestion, some of them killed; and what was seen.

A watcher looks at the heartbeats all the time: whose they are tells who executes which plan, so
that a process can be killed in the middle of one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lentic
from lentic.format import layout
from lentic.table import Table
from tests.faults.waiting import until
from tests.serve.ingester import SCHEMA, Task

ROOT = Path(__file__).resolve().parents[2]
INTERVAL_S = 1.0
TTL_S = 6.0
SHARED = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.client.heartbeat.tolerable.misses": "6",
}
WRITTEN = SHARED | {
    # A clustering that completes first moved the rows of a write, which has to begin anew then.
    "hoodie.write.num.retries.on.conflict.failures": "3",
}
SERVED = SHARED | {
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "3",
    "hoodie.clean.commits.retained": "4",
    "hoodie.keep.min.commits": "6",
    "hoodie.keep.max.commits": "9",
}
_ENV = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
_MAIN = "from lentic.cli.main import main; main()"


@dataclass
class Server:
    """One process of `lentic serve`, and the lines it printed."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_ready(self) -> None:
        """Until it listens to signals and has begun."""

        def is_ready() -> bool:
            assert self.process.poll() is None, self.err.read_text()
            return "metrics: " in self.err.read_text()

        until(is_ready, "a server to begin")

    def lines(self) -> list[dict[str, Any]]:
        """What it told; a killed one may have stopped in the middle of a line."""
        found = []
        for line in self.out.read_text("utf-8").splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found


@dataclass
class Watcher:
    """Sees whose heartbeat each plan has, over time."""

    tables: list[Table]
    owners: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    executing: dict[int, str] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self) -> None:
        while not self.over.wait(0.01):
            self.look()

    def look(self) -> None:
        with self.lock:
            now: dict[int, str] = {}
            for table in self.tables:
                folder = Path(table.path) / layout.HEARTBEATS
                for name in os.listdir(folder) if folder.exists() else ():
                    self._see(table, folder / name, now)
            self.executing = now

    def _see(self, table: Table, file: Path, now: dict[int, str]) -> None:
        try:
            said = json.loads(file.read_bytes())
        except (OSError, ValueError):
            return  # gone since, or another file on its way
        now[int(said["pid"])] = f"{table.path} {file.name}"
        known = self.owners.setdefault((table.path, file.name), [])
        if not known or known[-1] != said["owner"]:
            known.append(said["owner"])


@dataclass
class Fleet:
    """Tables, whoever writes to them, and whoever looks after them."""

    folder: Path
    tables: list[Table]
    servers: list[Server] = field(default_factory=list)
    ended: list[Server] = field(default_factory=list)
    ingester: subprocess.Popen[bytes] | None = None

    @property
    def lake(self) -> str:
        return str(self.folder / "lake")

    def start_server(self) -> Server:
        number = len(self.servers) + len(self.ended)
        out, err = self.folder / f"serve-{number}.jsonl", self.folder / f"serve-{number}.err"
        given = [part for key, value in SERVED.items() for part in ("-o", f"{key}={value}")]
        command = [sys.executable, "-c", _MAIN, "serve", self.lake, "--json"]
        command += ["--interval", str(INTERVAL_S), "--grace", "60", "--metrics-port", "0", *given]
        with out.open("wb") as told, err.open("wb") as errors:
            process = subprocess.Popen(
                command, cwd=ROOT, env=_ENV, stdin=subprocess.DEVNULL, stdout=told, stderr=errors
            )
        server = Server(process, out, err)
        self.servers.append(server)
        return server

    def kill(self, server: Server) -> None:
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        self.servers.remove(server)
        self.ended.append(server)

    def start_ingestion(self, rows: int, pause_s: float) -> None:
        task = Task([t.path for t in self.tables], str(self.folder), WRITTEN, rows, pause_s)
        with (self.folder / "ingester.err").open("wb") as errors:
            self.ingester = subprocess.Popen(
                [sys.executable, "-m", "tests.serve.ingester", task.to_json()],
                cwd=ROOT,
                env=_ENV,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=subprocess.STDOUT,
            )

    def end_ingestion(self) -> None:
        assert self.ingester is not None
        (self.folder / "end").touch()
        assert self.ingester.wait(120) == 0, (self.folder / "ingester.err").read_text()

    def written(self) -> list[dict[str, Any]]:
        """What the ingestion told of each of its writes."""
        return [json.loads(line) for line in (self.folder / "written").read_text().splitlines()]

    def pending(self) -> list[str]:
        return [f"{t.path} {i}" for t in self.tables for i in t.timeline() if i.is_pending]

    def lines(self) -> list[dict[str, Any]]:
        return [line for server in (*self.ended, *self.servers) for line in server.lines()]

    def end_servers(self) -> list[int]:
        """Ask all of them to end; their exit codes."""
        for server in self.servers:
            server.process.send_signal(signal.SIGTERM)
        return [server.process.wait(120) for server in self.servers]


@contextmanager
def fleet(folder: Path, tables: int) -> Iterator[Fleet]:
    """Half of the tables in buckets and merged on read, half copied on write without."""
    made = []
    for number in range(tables):
        on_read = number % 2 == 0
        made.append(
            lentic.create(
                str(folder / "lake" / f"team{number % 3}" / f"t{number}"),
                SCHEMA,
                key="id",
                partition_by="day",
                ordering="at",
                table_type="MERGE_ON_READ" if on_read else "COPY_ON_WRITE",
                buckets=2 if on_read else None,
                options=SHARED,
            )
        )
    stage = Fleet(folder, made)
    try:
        yield stage
    finally:
        for server in stage.servers:
            server.process.kill()
            server.process.wait()
        if stage.ingester is not None:
            stage.ingester.kill()
            stage.ingester.wait()


@dataclass
class Story:
    """What happened in a run."""

    kills: list[str]
    settled_s: float
    codes: list[int]
    watcher: Watcher


def perform(stage: Fleet, *, servers: int, seconds: float, kill_every_s: float, seed: int) -> Story:
    """Ingest and serve for so long, and kill a server every so often, if possible in the middle of
    a plan; then let the others finish, and end them."""
    chance, watcher, kills = random.Random(f"fleet {seed}"), Watcher(stage.tables), []
    seeing = threading.Thread(target=watcher.watch, daemon=True)
    seeing.start()
    try:
        for _ in range(servers):
            stage.start_server()
        for server in stage.servers:
            server.wait_ready()
        until(lambda: bool(stage.lines()), "the first action")
        begun = time.monotonic()
        while time.monotonic() < begun + seconds:
            next_kill = time.monotonic() + kill_every_s
            if next_kill > begun + seconds:
                time.sleep(max(0.0, begun + seconds - time.monotonic()))
                break
            time.sleep(kill_every_s * 0.6)
            victim = chance.choice(stage.servers)
            kills.append(_catch(victim, watcher, next_kill))
            stage.kill(victim)
            stage.start_server()
        stage.end_ingestion()
        ended = time.monotonic()
        until(lambda: not stage.pending(), "every plan to be done")
        settled_s = time.monotonic() - ended
        for server in stage.servers:
            server.wait_ready()
        codes = stage.end_servers()
    finally:
        watcher.over.set()
        seeing.join()
    return Story(kills, settled_s, codes, watcher)


def _catch(victim: Server, watcher: Watcher, latest: float) -> str:
    """Freeze the server in the middle of a plan, if it comes to one in time; which plan."""
    while time.monotonic() < latest:
        if victim.pid in watcher.executing:
            victim.process.send_signal(signal.SIGSTOP)
            watcher.look()
            if plan := watcher.executing.get(victim.pid):
                return plan
            victim.process.send_signal(signal.SIGCONT)
        time.sleep(0.002)
    return ""
