"""The figures of a write benchmark as tables: what each engine took, and how that compares."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.measure import Figures
from bench.workloads import MEMORY_TARGETS, SCANS, TARGETS, WORKLOADS

_MB = 1e6
_BUSY_FROM = 0.08
_ENDS = 5
OURS = "lentic"


@dataclass(frozen=True, slots=True)
class Result:
    """One step by one engine."""

    name: str
    on: str
    table_type: str
    run: int
    workload: str
    source: str
    figures: Figures

    @property
    def engine(self) -> tuple[str, str, str]:
        return self.name, self.on, self.table_type

    def as_json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "figures"}
        return fields | self.figures.as_json()


def step_head() -> str:
    return f"{'':<34}{_HEAD}"


def step_line(result: Result) -> str:
    """One step as it is measured."""
    title = f"{' '.join(result.engine):<23}{result.workload} {result.source}"
    return f"{title:<34}{_cells(result.figures)}"


def totals(results: Sequence[Result], workloads: Iterable[str]) -> list[str]:
    """Per workload and engine: medians over its commits and runs, and the greatest peak."""
    shown = [workload for workload in WORKLOADS if workload in workloads]
    lines = ["", f"{'per commit':<34}{_HEAD}"]
    for workload in shown:
        for engine in _engines(results):
            if found := _of(results, engine, workload):
                line = f"{workload:<4}{' '.join(engine):<30}{_cells(_summary(found))}"
                lines.append(line + _trend(found))
    busy = [r for r in results if r.figures.others > _BUSY_FROM]
    if busy:
        lines.append(f"Others used the machine during {len(busy)} of {len(results)} steps.")
    return lines


def speedups(results: Sequence[Result]) -> list[str]:
    """What compaction and clustering did for the scan with a range, per engine."""
    lines = []
    for engine in _engines(results):
        scans = [_of(results, engine, workload) for workload in SCANS]
        walls = [_summary(found).seconds if found else None for found in scans]
        if sum(wall is not None for wall in walls) < 2:
            continue
        cells = "".join(f"{'-' if wall is None else f'{wall:.3f}':>12}" for wall in walls)
        compacted, clustered = _ratio(walls[0], walls[1]), _ratio(walls[1], walls[2])
        found = next(result.figures.found for scan in scans for result in scan)
        lines.append(f"{' '.join(engine):<34}{cells}{compacted:>12}{clustered:>12}{found:>10}")
    heads = ("with logs", "before W6", "after W6", "by W5", "by W6")
    head = "".join(f"{name:>12}" for name in heads)
    title = "range scan, s, and speed-up"
    return ["", f"{title:<34}{head}{'rows':>10}", *lines] if lines else []


def _ratio(before: float | None, after: float | None) -> str:
    return "-" if before is None or after is None else f"{before / after:.2f}x"


def ratios(results: Sequence[Result], workloads: Iterable[str]) -> list[str]:
    """How many times as long each peer took; the target is against the best of them."""
    lines = []
    for on, table_type in TARGETS:
        for workload in (w for w in WORKLOADS if w in workloads):
            lines += _compared(results, on, table_type, workload)
    if not lines:
        return []
    walls = f"{'peer / lentic':<34}{'peer s':>9}{'ours s':>9}{'ratio':>8}{'target':>8}"
    return ["", f"{walls}{'':7}{'of cpu':>8}   memory, lentic / peer", *lines]


def _compared(results: Sequence[Result], on: str, table_type: str, workload: str) -> list[str]:
    ours = _of(results, (OURS, on, table_type), workload)
    peers = {
        name: _of(results, (name, on, kind), workload)
        for name, side, kind in _engines(results)
        if name != OURS and side == on and kind == _type_of(name, table_type)
    }
    if not ours or not any(peers.values()):
        return []
    mine = _summary(ours)
    theirs = {name: _summary(found) for name, found in peers.items() if found}
    best = min(theirs, key=lambda name: theirs[name].seconds)
    lines = []
    for name, other in theirs.items():
        ratio, target = other.seconds / mine.seconds, TARGETS[on, table_type][workload]
        verdict = ("ok" if ratio >= target else "UNDER") if name == best else ""
        shown = f"{target:7.1f}x" if name == best else f"{'':8}"
        title = f"{workload} {on} {table_type} against {name}"
        walls = f"{other.seconds:9.2f}{mine.seconds:9.2f}{ratio:7.2f}x{shown} {verdict:<6}"
        cpu = other.cpu_seconds / max(0.01, mine.cpu_seconds)
        lines.append(f"{title:<34}{walls}{cpu:7.2f}x   {_memory(name, mine, other)}")
    return lines


def _memory(name: str, mine: Figures, other: Figures) -> str:
    ratio = mine.peak_bytes / max(1, other.peak_bytes)
    if name not in MEMORY_TARGETS:
        return f"{ratio:.2f}"
    target = MEMORY_TARGETS[name]
    return f"{ratio:.2f} (<= {target}) {'ok' if ratio <= target else 'OVER'}"


def _type_of(name: str, table_type: str) -> str:
    """delta-rs has no merge-on-read: both types of ours meet its one."""
    return "cow" if name == "deltalake" else table_type


def _trend(found: Sequence[Result]) -> str:
    """Whether many small commits stay as fast as the first ones were."""
    runs = {result.run for result in found}
    if len(found) < 2 * _ENDS * len(runs):
        return ""
    by_run = [[r.figures.seconds for r in found if r.run == run] for run in sorted(runs)]
    first = statistics.median([s for seconds in by_run for s in seconds[:_ENDS]])
    last = statistics.median([s for seconds in by_run for s in seconds[-_ENDS:]])
    return f"   first {_ENDS}: {first:.2f} s, last {_ENDS}: {last:.2f} s"


def _engines(results: Sequence[Result]) -> list[tuple[str, str, str]]:
    return list(dict.fromkeys(result.engine for result in results))


def _of(results: Sequence[Result], engine: tuple[str, str, str], workload: str) -> list[Result]:
    return [r for r in results if r.engine == engine and r.workload == workload]


def _summary(found: Sequence[Result]) -> Figures:
    def median(pick: Callable[[Figures], float]) -> float:
        return statistics.median([pick(result.figures) for result in found])

    return Figures(
        seconds=median(lambda f: f.seconds),
        cpu_seconds=median(lambda f: f.cpu_seconds),
        peak_bytes=max(result.figures.peak_bytes for result in found),
        data_bytes=int(median(lambda f: f.data_bytes)),
        metadata_bytes=int(median(lambda f: f.metadata_bytes)),
        files=int(median(lambda f: f.files)),
        others=median(lambda f: f.others),
    )


_HEAD = (
    f"{'wall s':>8} {'cpu s':>8} {'peak MB':>8} {'data MB':>9} {'meta MB':>8} {'files':>6} others"
)


def _cells(f: Figures) -> str:
    sizes = f"{f.peak_bytes / _MB:8.0f} {f.data_bytes / _MB:9.2f} {f.metadata_bytes / _MB:8.3f}"
    return f"{f.seconds:8.2f} {f.cpu_seconds:8.2f} {sizes} {f.files:6d} {f.others:5.0%}"
