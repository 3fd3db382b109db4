"""The processes of a machine, as Linux shows them in /proc: who started whom, stop, go on, kill.

Only processes that a cluster of ours started are ever signalled: they carry a word in their
environment that no other process has.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults.waiting import until

MARK = "LENTIC_FAULTS_CLUSTER"
_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor: its JVM, the daemon that forks Python workers, and these workers; and the Spark
    worker that started it."""

    pids: tuple[int, ...]
    node: int

    def kill(self) -> None:
        """End it at once, so that no part of it sees another end."""
        send(self.pids, signal.SIGSTOP)
        send(self.pids, signal.SIGKILL)
        until(lambda: not any(map(is_alive, self.pids)), "killed processes to be gone")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """As if its host had left the network: it does nothing, and nobody can end it. Afterwards
        the host is back, without the executor.

        The Spark worker must be stopped too: it would kill the executor's JVM, and a group of
        processes whose last parent ends while they are stopped is hung up by the system.
        """
        send([self.node, *self.pids], signal.SIGSTOP)
        try:
            yield
        finally:
            self.kill()
            send([self.node], signal.SIGCONT)


def executor_of(worker: int) -> Executor:
    """The executor that a Python worker belongs to."""
    pid = worker
    while _EXECUTOR not in _command(pid):
        parent = _parent(pid)
        assert parent is not None and parent > 1, f"process {worker} belongs to no executor"
        pid = parent
    return _executor(pid)


def list_executors(mark: str) -> list[Executor]:
    """The running executors of the cluster with this mark."""
    return [_executor(pid) for pid in list_marked(mark) if _EXECUTOR in _command(pid)]


def list_marked(mark: str) -> list[int]:
    """The processes whose environment carries the mark, zombies left out."""
    word = f"{MARK}={mark}".encode()
    return [pid for pid in _pids() if word in _read(pid, "environ").split(b"\0")]


def is_alive(pid: int) -> bool:
    """Whether the process runs, or is stopped; one that has ended but was not waited for does
    neither."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def send(pids: Iterable[int], number: signal.Signals) -> int:
    """Signal processes; how many there still were."""
    sent = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            sent += 1
    return sent


def _executor(jvm: int) -> Executor:
    children: dict[int, list[int]] = {}
    for pid in _pids():
        if (parent := _parent(pid)) is not None:
            children.setdefault(parent, []).append(pid)
    tree = [jvm]
    for pid in tree:
        tree += children.get(pid, ())
    node = _parent(jvm)
    assert node is not None, f"executor {jvm} has just ended"
    return Executor(tuple(tree), node)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _command(pid: int) -> str:
    return _read(pid, "cmdline").decode(errors="replace")


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _stat(pid: int) -> list[str]:
    """State, parent and so on: what follows the name, which may hold anything."""
    return _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended, or is not ours to look at
        return b""
