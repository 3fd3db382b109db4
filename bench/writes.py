"""How long writes take, and what they need: lentic on Spark and without, and peers beside it.

    make bench-writes                                         4,000,000 rows, lentic alone
    make bench-writes ARGS="--peers iceberg,deltalake"        with the best peers in the same run
    make bench-writes ARGS="--rows 40000 --engine local --only W2,W7"
    make bench-writes ARGS="--only W2,W4,W5,W4a,W6,W4b --peers iceberg,deltalake"   services
    make bench-writes ARGS="--memory"                         peak memory against file group size

Every engine runs in a process of its own and writes the same rows (bench/orders.py) in the same
steps (bench/workloads.py): in turn, so that a run compares like with like. At the end of each its
table is read and must hold what was written. Compare ratios of one run, never bare seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.install import PeerUnavailable
from bench.measure import WriterFailed, WriterProcess
from bench.memory import measure_memory
from bench.orders import ensure_orders, summarize
from bench.peers import PEERS, Contestant, Task, find_lentic, find_peer
from bench.report import Result, ratios, speedups, step_head, step_line, totals
from bench.workloads import FULL_ROWS, PARTITIONS_MIN, TYPES, WORKLOADS, Step, steps_for

_ROOT = Path(__file__).resolve().parents[1]
_ROWS_MIN = 8_000


@dataclass(frozen=True, slots=True)
class Race:
    """What every engine has to do."""

    codec: str
    orders: Path
    folder: Path
    steps: tuple[Step, ...]
    expected: dict[str, int]
    json: str | None


def main() -> int:
    given = parse_arguments()
    with work_folder(given.folder) as folder:
        if given.memory:
            for line in measure_memory(folder, given.rows, given.codec):
                print(line, flush=True)
            return 0
        contestants = find_contestants(given)
        orders = folder / f"orders-{given.rows}-{given.partitions}"
        ensure_orders(orders, given.rows, given.partitions)
        steps = steps_for(given.only)
        names = ("rows", "quantity", "ts")
        sums = summarize(orders, (step.source for step in steps if step.verb == "write"))
        expected = dict(zip(names, sums, strict=True))
        race = Race(given.codec, orders, folder, steps, expected, given.json)
        print(
            f"{given.rows} rows, {given.partitions} partitions, {given.codec}, {given.runs} run(s)"
        )
        results, failed = run_all(race, contestants, given.runs)
    compared = ratios(results, given.only)
    print("\n".join(totals(results, given.only) + speedups(results) + compared))
    if compared and given.rows != FULL_ROWS:
        print(f"The targets are meant for {FULL_ROWS} rows.")
    return 1 if failed else 0


def parse_arguments() -> argparse.Namespace:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("bench.writes", description=__doc__, formatter_class=kind)
    parser.add_argument("--rows", type=int, default=FULL_ROWS)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--engine", choices=["spark", "local", "both"], default="both")
    parser.add_argument("--types", type=Names(TYPES), default=TYPES, help="cow,mor")
    parser.add_argument(
        "--only", type=Names(WORKLOADS), default=WORKLOADS, help=",".join(WORKLOADS)
    )
    parser.add_argument("--peers", type=Names(tuple(PEERS)), default=(), help=",".join(PEERS))
    parser.add_argument("--runs", type=int, default=1, help="each on fresh tables")
    parser.add_argument("--codec", choices=["snappy", "zstd"], default="snappy", help="of everyone")
    parser.add_argument("--memory", action="store_true", help="peak memory against file group size")
    parser.add_argument("--folder", type=Path, help="work here, and keep the orders for next time")
    parser.add_argument("--json", help="add one line per step to this file")
    given = parser.parse_args()
    if given.rows < _ROWS_MIN or given.rows % 8:
        parser.error(f"--rows must be a multiple of 8, and {_ROWS_MIN} or more")
    if given.partitions < PARTITIONS_MIN:
        parser.error(f"--partitions must be {PARTITIONS_MIN} or more")
    return given


@dataclass(frozen=True, slots=True)
class Names:
    """A list with commas of names that are known."""

    known: tuple[str, ...]

    def __call__(self, text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        if unknown := set(names) - set(self.known):
            raise argparse.ArgumentTypeError(f"{min(unknown)!r} is not among {self.known}")
        return names


@contextmanager
def work_folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="lentic-bench-") as folder:
        yield Path(folder)


def find_contestants(given: argparse.Namespace) -> list[Contestant]:
    """Ourselves, each followed by the peers it is compared with."""
    peers = []
    for name in given.peers:
        try:
            kinds = find_peer(name)
            # One that has a single type of table is what both of ours are compared with.
            peers += [peer for peer in kinds if peer.table_type in given.types] or kinds
        except PeerUnavailable as missing:
            print(f"{name} is left out: {missing}")
    env = dict(os.environ) | {"PYTHONPATH": str(_ROOT)}
    found = []
    for on in ("spark", "local"):
        for table_type in TYPES:
            if given.engine in (on, "both") and table_type in given.types:
                found.append(find_lentic(on, table_type, env))
            found += [peer for peer in peers if (peer.on, peer.table_type) == (on, table_type)]
    return found


def run_all(
    race: Race, contestants: Sequence[Contestant], runs: int
) -> tuple[list[Result], list[str]]:
    """Every engine in turn, `runs` times; what was measured, and who failed."""
    results, failed = list[Result](), list[str]()
    print(step_head())
    for run in range(runs):
        for contestant in contestants:
            if contestant.title in failed:
                continue
            try:
                for result in run_one(race, contestant, run):
                    ensure_same_found(results, result)
                    results.append(result)
                    record(race, result)
            except WriterFailed as failure:
                failed.append(contestant.title)
                print(f"{contestant.title} failed: {failure}", file=sys.stderr, flush=True)
    return results, failed


def ensure_same_found(before: Sequence[Result], result: Result) -> None:
    """Every scan by every engine finds the same rows: services must change none."""
    scans = (one.figures.found for one in before if one.figures.found is not None)
    expected = next(scans, result.figures.found)
    if result.figures.found is not None and result.figures.found != expected:
        raise WriterFailed(f"its scan found {result.figures.found} rows, not {expected}")


def record(race: Race, result: Result) -> None:
    """Show it, and keep it whatever happens later."""
    print(step_line(result), flush=True)
    if race.json:
        with open(race.json, "a") as file:
            file.write(json.dumps(result.as_json()) + "\n")


def run_one(race: Race, contestant: Contestant, run: int) -> Iterator[Result]:
    """All steps by one engine, on a fresh table, in a fresh process."""
    out = race.folder / contestant.title.replace(" ", "-")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    name, on, table_type = contestant.name, contestant.on, contestant.table_type
    command = contestant.command(Task(race.codec, race.orders, out))
    with WriterProcess(command, contestant.env, out / "log") as writer:
        writer.ask("create")
        for step in race.steps:
            if table_type not in step.types:
                continue
            more = {"source": step.source, "within": list(step.within)}
            figures = writer.measure(
                out / "table", step.verb, **(more if step.verb == "write" else {})
            )
            yield Result(name, on, table_type, run, step.workload, step.source, figures)
        found = writer.ask("summarize")
    wrong = {key: found[key] for key, value in race.expected.items() if found[key] != value}
    if wrong:
        raise WriterFailed(f"its table holds {wrong}, not {race.expected}")
    shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
