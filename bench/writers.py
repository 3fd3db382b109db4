"""Two writers on one table at once: what it costs that they meet (W10).

    make bench-writers                                    1,000,000 rows, two batches of 200,000
    make bench-writers ARGS="--rows 80000 --batch 8000 --engine spark"

Two processes update the same rows of one MERGE_ON_READ table at the same time, with OCC and with
NBCC. Beside that, one process does the same two batches in a row. Printed are the wall time of
each, their ratio, and the work that was done for nothing: attempts that were aborted, the
processor time they took and the bytes they wrote. At the end the table is read and must hold what
was written.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lentic
from bench.orders import SCHEMA, SEED, make_keys, make_orders, open_rows
from bench.pair_writer import Done, Job
from bench.workloads import BUCKETS, KEY, ORDERING, PARTITION, partition_name
from bench.writes import work_folder

MODES = {
    "OCC": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "NBCC": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
RATIO_MAX = 1.3
"""NBCC: both at once may take so many times what one takes for both batches in a row."""
_CODEC = {"hoodie.parquet.compression.codec": "snappy"}
_PAIR = ("a", "b")
_ANSWER_S = 1800


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to write both batches."""

    mode: str
    way: str
    dones: tuple[Done, ...]

    @property
    def seconds(self) -> float:
        return max(done.ended_s for done in self.dones) - min(d.begun_s for d in self.dones)

    @property
    def wasted_cpu(self) -> float:
        """Share of the processor time that aborted attempts took."""
        return sum(d.wasted_cpu_s for d in self.dones) / sum(d.cpu_s for d in self.dones)

    @property
    def wasted_bytes(self) -> float:
        return sum(d.wasted_bytes for d in self.dones) / sum(d.written for d in self.dones)


def main() -> int:
    given = parse_arguments()
    with work_folder(given.folder) as folder:
        expected = make_rows(folder, given.rows, given.batch, given.partitions)
        load_base(folder)
        print(f"{given.rows} rows, two batches of {given.batch}, {given.engine}", flush=True)
        trials = []
        for run in range(given.runs):
            for mode in given.modes:
                for way in ("in a row", "at once"):
                    trials.append(run_trial(folder, given.engine, mode, way, expected))
                    print(trial_line(run, trials[-1]), flush=True)
    print("\n".join(verdicts(trials, given.modes)))
    return 0


def parse_arguments() -> argparse.Namespace:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("bench.writers", description=__doc__, formatter_class=kind)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--engine", choices=["spark", "local"], default="local")
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--runs", type=int, default=3, help="each on a fresh table")
    parser.add_argument("--folder", type=Path, help="work here, instead of a temporary folder")
    given = parser.parse_args()
    if not 1 <= given.batch <= given.rows:
        parser.error("--batch must be from 1 up to --rows")
    return given


def make_rows(folder: Path, rows: int, batch: int, partitions: int) -> dict[str, int]:
    """Write the base and both batches, which update the same rows; what the table must hold."""
    rng = np.random.default_rng([SEED, 10])
    names = pa.array([partition_name(number) for number in range(partitions)])
    keys = make_keys(rng, rows)
    places = names.take(pa.array(rng.integers(0, partitions, rows)))
    base = make_orders(rng, keys, places, ts=1)
    chosen = rng.choice(rows, batch, replace=False)
    _write(folder / "base", base)
    newest = base
    for ts, name in enumerate(_PAIR, start=2):
        mine = pa.array(rng.permutation(chosen))
        newest = make_orders(rng, keys.take(mine), places.take(mine), ts)
        _write(folder / name, newest)
    kept = base.filter(pa.array(~np.isin(np.arange(rows), chosen)))
    return _summary(pa.concat_tables([kept, newest]))


def load_base(folder: Path) -> None:
    shutil.rmtree(folder / "loaded", ignore_errors=True)
    table = lentic.create(
        str(folder / "loaded"),
        SCHEMA,
        key=KEY,
        partition_by=PARTITION,
        ordering=ORDERING,
        buckets=BUCKETS,
        options=_CODEC,
    )
    table.bulk_insert(open_rows(folder / "base"))


def run_trial(folder: Path, engine: str, mode: str, way: str, expected: Mapping[str, int]) -> Trial:
    """Both batches into a fresh copy of the table; `SystemExit` if it holds anything else then."""
    path = folder / "table"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(folder / "loaded", path)
    options = _CODEC | {"hoodie.write.concurrency.mode": MODES[mode]}
    job = Job(str(path), engine, options)
    sources = [str(folder / name) for name in _PAIR]
    with ExitStack() as stack:
        writers = [
            stack.enter_context(pair_writer(job, folder / f"writer-{number}.log"))
            for number in range(1 if way == "in a row" else 2)
        ]
        if way == "in a row":
            dones = [ask(writers[0], source) for source in sources]
        else:
            for writer, source in zip(writers, sources, strict=True):
                tell(writer, source)
            dones = [hear(writer) for writer in writers]
    found = _summary(lentic.open(str(path)).read(columns=["quantity", "ts"]))
    if found != expected:
        raise SystemExit(f"{mode} {way}: the table holds {found}, not {expected}")
    return Trial(mode, way, tuple(dones))


@contextmanager
def pair_writer(job: Job, log: Path) -> Iterator[subprocess.Popen[str]]:
    """A writer that has opened the table; it ends with the block."""
    with log.open("w") as sink:
        writer = subprocess.Popen(
            [sys.executable, "-m", "bench.pair_writer", json.dumps(asdict(job))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
        )
    assert writer.stdin is not None and writer.stdout is not None
    try:
        if writer.stdout.readline() != "ready\n":
            raise SystemExit(f"a writer did not start; see {log.read_text()[-600:]}")
        yield writer
        writer.stdin.close()
        writer.wait(_ANSWER_S)
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()


def ask(writer: subprocess.Popen[str], source: str) -> Done:
    tell(writer, source)
    return hear(writer)


def tell(writer: subprocess.Popen[str], source: str) -> None:
    assert writer.stdin is not None
    writer.stdin.write(source + "\n")
    writer.stdin.flush()


def hear(writer: subprocess.Popen[str]) -> Done:
    assert writer.stdout is not None
    line = writer.stdout.readline()
    if not line:
        raise SystemExit("a writer ended before it had committed; run with --folder to see its log")
    return Done(**json.loads(line))


def trial_line(run: int, trial: Trial) -> str:
    first = min(done.begun_s for done in trial.dones)
    commits = " and ".join(f"{done.ended_s - first:.2f} s" for done in trial.dones)
    aborts = sum(done.aborts for done in trial.dones)
    return (
        f"run {run}  {trial.mode:4} {trial.way:8}  {trial.seconds:6.2f} s  committed at {commits}"
        f"  {sum(done.cpu_s for done in trial.dones):.1f} cpu-s  {aborts} aborts"
        f"  wasted {trial.wasted_cpu:.0%} cpu, {trial.wasted_bytes:.0%} bytes"
    )


def verdicts(trials: Sequence[Trial], modes: Sequence[str]) -> list[str]:
    """At once against in a row, by the medians of all runs."""
    lines = []
    for mode in modes:
        mine = [trial for trial in trials if trial.mode == mode]
        row, once = (
            median(t.seconds for t in mine if t.way == way) for way in ("in a row", "at once")
        )
        aborts = sum(done.aborts for trial in mine for done in trial.dones)
        wasted = max(trial.wasted_cpu for trial in mine)
        line = f"{mode:4} at once / in a row: {once:.2f} s / {row:.2f} s = {once / row:.2f}"
        line += f", {aborts} aborts, at most {wasted:.0%} wasted"
        if mode == "NBCC":
            kept = once / row <= RATIO_MAX and not aborts
            line += f"  (goal: 0 aborts, ≤ {RATIO_MAX}: {'kept' if kept else 'missed'})"
        lines.append(line)
    return lines


def _summary(rows: pa.Table) -> dict[str, int]:
    sums = {name: pc.sum(rows.column(name)).as_py() for name in ("quantity", "ts")}
    return {"rows": rows.num_rows, **sums}


def _write(folder: Path, rows: pa.Table) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    half = -(-len(rows) // 2)
    for number in range(2):
        part = rows.slice(number * half, half)
        pq.write_table(part, folder / f"p{number:02d}.parquet", compression="snappy")


if __name__ == "__main__":
    sys.exit(main())
