"""What a process and all that it starts use: time, processor time, memory, and bytes written.

Read from /proc by the process that asks, not by the one that works. Processor time includes that of
processes that have ended. Peak memory is the greatest sum of resident memory over the tree seen at
one look, and no less than the greatest single peak, which the kernel keeps exactly; what forked
workers share counts for each of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

_LOOK_EVERY_S = 0.05
_LOOKS_PER_TREE = 10
_STOP_WITHIN_S = 60
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_METADATA_FOLDERS = {".hoodie", "_delta_log", "metadata"}


@dataclass(frozen=True, slots=True)
class Figures:
    """What one step took. `others` is the share of the machine that somebody else used, `found`
    the rows of a scan."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    data_bytes: int
    metadata_bytes: int
    files: int
    others: float
    found: int | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class WriterFailed(Exception):
    """An engine could not do a step; the message is its own."""


class WriterProcess:
    """An engine of `bench.serve` in a process of its own, and what it uses."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as sink:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, env=dict(env)
            )

    def __enter__(self) -> Self:
        try:
            self._reply()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        """Have it end, and wait until all that it started has ended too and writes no more."""
        assert self._process.stdin is not None
        started = tree_of(self._process.pid)
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            for pid in tree_of(self._process.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
        for _ in range(int(_STOP_WITHIN_S / _LOOK_EVERY_S)):
            if not any(map(resident_bytes, started)):
                return
            time.sleep(_LOOK_EVERY_S)

    def ask(self, verb: str, **arguments: object) -> dict[str, Any]:
        """Have the engine do something, unmeasured."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"verb": verb, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        return self._reply()

    def measure(self, table: Path, verb: str, **arguments: object) -> Figures:
        """Have the engine do something that writes to `table`."""
        self.ask("settle")
        os.sync()
        before = files_under(table)
        with Watch(self._process.pid) as watch:
            reply = self.ask(verb, **arguments)
        after = files_under(table)
        fresh = {path: stamp[0] for path, stamp in after.items() if before.get(path) != stamp}
        metadata = sum(
            size for path, size in fresh.items() if _is_metadata(path.relative_to(table))
        )
        return Figures(
            seconds=reply["seconds"],
            cpu_seconds=watch.cpu_seconds,
            peak_bytes=watch.peak_bytes,
            data_bytes=sum(fresh.values()) - metadata,
            metadata_bytes=metadata,
            files=len(fresh),
            others=watch.others,
            found=reply.get("found"),
        )

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WriterFailed(f"it ended; its last words: {_last_words(self._log)}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise WriterFailed(reply["error"])
        return reply


class Watch:
    """Looks at a process tree from the beginning to the end of a `with` block."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._ended = threading.Event()
        self._seen_bytes = 0
        self.cpu_seconds = 0.0
        self.peak_bytes = 0
        self.others = 0.0

    def __enter__(self) -> Self:
        self._tree = tree_of(self._root)
        for pid in self._tree:
            _forget_peak(pid)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._cpu, self._machine = cpu_seconds(self._tree), machine_cpu_seconds()
        self._begun = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        took = time.perf_counter() - self._begun
        tree = tree_of(self._root)
        self.cpu_seconds = cpu_seconds(tree) - self._cpu
        foreign = machine_cpu_seconds() - self._machine - self.cpu_seconds
        self.others = max(0.0, foreign / (took * (os.cpu_count() or 1)))
        self._ended.set()
        self._thread.join()
        self.peak_bytes = max([self._seen_bytes, *(peak_bytes(pid) for pid in tree)])

    def _look(self) -> None:
        looks, tree, stayed = 0, self._tree, self._tree
        while not self._ended.is_set():
            if looks and looks % _LOOKS_PER_TREE == 0:
                # A process that a JVM just forked shows all of the JVM's memory as its own.
                before, tree = tree, tree_of(self._root)
                stayed = [pid for pid in tree if pid in before]
            self._seen_bytes = max(self._seen_bytes, sum(resident_bytes(pid) for pid in stayed))
            looks += 1
            self._ended.wait(_LOOK_EVERY_S)


def tree_of(root: int) -> list[int]:
    """The process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for pid in _all_pids():
        if stat := _stat(pid):
            children.setdefault(int(stat[1]), []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(pids: Sequence[int]) -> float:
    """Of these processes, and of those they have started and that have ended."""
    stats = (_stat(pid) for pid in pids)
    return sum(sum(int(ticks) for ticks in stat[11:15]) for stat in stats if stat) / _TICKS


def machine_cpu_seconds() -> float:
    """Time that all processors were not idle."""
    with open("/proc/stat") as file:
        ticks = [int(number) for number in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / _TICKS


def written_bytes(pids: Sequence[int]) -> int:
    """All that these processes have written, to files, pipes and sockets alike."""
    found = (re.search(r"wchar: (\d+)", _read(f"/proc/{pid}/io")) for pid in pids)
    return sum(int(match[1]) for match in found if match)


def resident_bytes(pid: int) -> int:
    found = _read(f"/proc/{pid}/statm").split()
    return int(found[1]) * _PAGE if found else 0


def peak_bytes(pid: int) -> int:
    """The greatest resident memory since it was last forgotten; 0 if the process has ended."""
    found = re.search(r"VmHWM:\s+(\d+) kB", _read(f"/proc/{pid}/status"))
    return int(found[1]) * 1024 if found else 0


def files_under(folder: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of every file but checksums."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".crc"):
                path = Path(place, name)
                with contextlib.suppress(OSError):
                    stat = path.stat()
                    found[path] = (stat.st_size, stat.st_mtime_ns)
    return found


def _is_metadata(path: Path) -> bool:
    return not _METADATA_FOLDERS.isdisjoint(path.parts)


def _forget_peak(pid: int) -> None:
    # Only the owner of the process may; a peak from before a step would count for it otherwise.
    with contextlib.suppress(OSError), open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def _all_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may hold spaces: state, parent, ... ; none if it ended."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-600:]
