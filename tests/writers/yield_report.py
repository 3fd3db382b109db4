"""How ingestion fared beside a clustering, and how soon that gave way: from ledgers, and from the
requests to cancel, which go with their plan and so must be watched for."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import lentic
from lentic.format import layout
from tests.writers.history import Outcome, Write
from tests.writers.ledger import INTENT, OUTCOME, Entry

ABORTED, COMMITTED = lentic.Aborted.__name__, lentic.Committed.__name__
_LOOK_EVERY_S = 0.005

# --- requests to cancel -----------------------------------------------------------------------


@dataclass
class Requests:
    """When each request to cancel was made, on the clock of the ledgers."""

    folder: Path
    made_ns: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        """Requests go with their plan, so this must look often."""
        now_ns, clock_ns = time.time_ns(), time.monotonic_ns()
        for file in self.folder.glob("*"):
            if file.name in self.made_ns:
                continue
            try:
                age_ns = now_ns - file.stat().st_mtime_ns
            except FileNotFoundError:
                continue
            self.made_ns[file.name] = clock_ns - age_ns


@contextmanager
def watched(table: str) -> Iterator[Requests]:
    """Look for requests to cancel while the block lasts."""
    requests, over = Requests(Path(table) / layout.CANCEL), threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_EVERY_S):
            requests.look()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield requests
    finally:
        over.set()
        looking.join()


# --- what came of it --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Try:
    """One plan of the clusterer: what came of it, and how long its work and its call went on after
    it was asked to end; None where nothing ran by then, or nobody asked."""

    at: str
    outcome: str
    work_s: float | None
    call_s: float | None


def tries_of(entries: list[Entry], requests: Requests) -> list[Try]:
    """The plans that came to an end, as a clusterer's ledger tells."""
    found: list[Try] = []
    at, is_working, worked_ns = "", False, None
    for entry in entries:
        asked_ns = requests.made_ns.get(at)
        match entry["kind"]:
            case "planned":
                at, is_working, worked_ns = entry["at"], False, None
            case "working":
                is_working = asked_ns is None or entry["ns"] < asked_ns
            case "worked":
                worked_ns = entry["ns"] if is_working else None
            case "service":
                late = [(ns - asked_ns) / 1e9 if ns and asked_ns else None
                        for ns in (worked_ns, entry["ns"])]  # fmt: skip
                found.append(Try(at, entry["outcome"], *late))
    return found


@dataclass(frozen=True, slots=True)
class Report:
    """What a play came to: how long writes took in each phase, alone and beside a clustering by
    turns. Writes take as long as they do when there is a core for them; how much longer they took
    is `waits`."""

    alone_s: tuple[tuple[float, ...], ...]
    beside_s: tuple[tuple[float, ...], ...]
    waits: float
    tries: tuple[Try, ...]
    writes: tuple[Write, ...]

    @property
    def ratios(self) -> list[float]:
        """How much longer a write takes beside each clustering than alone, by the medians. The more
        logs there are the longer it takes, alone as well: alone is between before and after."""
        alone = [statistics.median(phase) for phase in self.alone_s]
        return [
            statistics.median(phase) / statistics.mean(alone[turn : turn + 2])
            for turn, phase in enumerate(self.beside_s)
        ]

    @property
    def ratio(self) -> float:
        return statistics.mean(self.ratios)

    @property
    def failures(self) -> list[Write]:
        return [write for write in self.writes if write.outcome is not Outcome.OK]

    @property
    def slowest_stop_s(self) -> float:
        """The longest that work went on after a request to end it."""
        return max((t.work_s for t in self.tries if t.work_s is not None), default=0.0)

    @property
    def slowest_end_s(self) -> float:
        """The longest until the call of whoever worked had ended the plan."""
        return max((t.call_s for t in self.tries if t.call_s is not None), default=0.0)

    def __str__(self) -> str:
        outcomes = Counter(t.outcome for t in self.tries)
        stopped = [t.work_s for t in self.tries if t.work_s is not None]
        ratios = " and ".join(f"{ratio:.2f}" for ratio in self.ratios)
        return (
            f"{len(self.writes)} writes, {len(self.failures)} failed; commit in "
            f"{_medians(self.alone_s)} alone, {_medians(self.beside_s)} beside clustering, by "
            f"turns: {ratios}, {self.ratio:.2f} x "
            f"(and {self.waits:.2f} s waiting for a core each); "
            f"{outcomes[ABORTED]} clusterings aborted, {outcomes[COMMITTED]} committed; "
            f"work stopped within {self.slowest_stop_s:.2f} s of the request "
            f"({len(stopped)} at work), plan aborted within {self.slowest_end_s:.2f} s"
        )


def _medians(phases: tuple[tuple[float, ...], ...]) -> str:
    return " / ".join(f"{statistics.median(took):.3f} s (of {len(took)})" for took in phases)


@dataclass(frozen=True, slots=True)
class Took:
    """How long a write took, and how long of that it waited for a core."""

    seconds: float
    waited_s: float

    @property
    def at_work_s(self) -> float:
        return self.seconds - self.waited_s


def times_of(entries: list[Entry], after_ns: int, before_ns: int) -> list[Took]:
    """The writes of a ledger that lie between two moments."""
    begun = {e["seq"]: e["ns"] for e in entries if e["kind"] == INTENT}
    ended = [e for e in entries if e["kind"] == OUTCOME and e["ns"] < before_ns]
    return [
        Took((e["ns"] - begun[e["seq"]]) / 1e9, e["waited_ns"] / 1e9)
        for e in ended
        if begun[e["seq"]] > after_ns
    ]
