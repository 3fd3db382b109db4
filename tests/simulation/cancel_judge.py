"""What must hold of a run of writers, clusterings and those who cancel them (`cancel_crowd.py`).

First safety: nothing is both committed and aborted, no plan completes that somebody was promised
the end of, no write fails but for what may refuse it, no row is lost, doubled or seen uncommitted.
Then liveness: without faults, a few runs of the services bring every plan to its end and leave
nothing stale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lentic.errors import (
    Conflict,
    LenticError,
    LockTimeout,
    WriteConflict,
)
from lentic.format import layout
from lentic.format.names import Action, State, completed_action, parse_instant_file
from lentic.services.failed_writes import roll_back_expired
from lentic.services.verify import verify_table
from lentic.storage.base import Storage
from lentic.table import Table
from lentic.testing.checkers import list_leftovers
from lentic.testing.simulation import Raised
from lentic.testing.tables import open_on
from lentic.timeline.aborted_history import load_aborted
from lentic.timeline.history import load_history
from lentic.timeline.reader import load_timeline
from tests.simulation.cancel_crowd import (
    NUMBERS,
    PARTITIONS,
    PROMISE,
    WRITERS,
    Asked,
    Played,
    Plot,
    batch,
    key,
    play,
    plot_of,
    share,
    shared,
    stamp,
)
from tests.simulation.faults import (
    is_unknown,
    judge_kinds,
    judge_snapshots,
    list_made,
    list_published,
    list_violations,
    rows_of,
)

LAST_RUNS = 3
PLANS_MAX = 12
REPLACE = completed_action(Action.CLUSTERING)


def judge_run(played: Played) -> list[str]:
    """Everything that is wrong with a run; nothing, as it should be."""
    storage = played.sim.memory
    world = played.sim.world("after", skew_ms=7_200_000)
    table = open_on(storage, world, played.lock, played.plot.options)
    findings = judge_kinds(played.outcome) + _judge_refusals(played)
    roll_back_expired(table._opened, waits=True)
    findings += [f for f in verify_table(storage) if not _is_transient(f)]
    rows = rows_of(table)
    findings += _judge_rows(played, rows) + _judge_snapshots(played, rows)
    _run_to_rest(table)
    findings += _judge_ends(played) + verify_table(storage) + _judge_rest(storage)
    if rows_of(table) != rows:
        findings.append(f"services changed the rows: {rows} -> {rows_of(table)}")
    findings += _judge_use(table, rows)
    return findings


def violations(seed: int, plot: Plot | None = None) -> list[str]:
    """What is wrong with the run of `seed`, or of another plot."""
    return list_violations(seed, lambda seed: play(seed, plot or plot_of(seed)), judge_run)


# --- safety -------------------------------------------------------------------------------------


def _is_transient(finding: str) -> bool:
    """Between the end of a plan and that of the request to end it somebody may have died."""
    return "is aborted, and its cancellation is still asked for" in finding


def _judge_ends(played: Played) -> list[str]:
    """No plan ends in two ways, nor completes after its end was asked for."""
    storage, trace = played.sim.memory, played.sim.trace
    timeline = load_timeline(storage)
    published = {name.partition("_")[0] for name, _ in list_published(trace)}
    done = (*timeline.completed(), *load_history(storage).instants)
    completed = published | {str(i.requested_at) for i in done}
    aborted = {str(i.requested_at) for i in (*timeline.aborted(), *load_aborted(storage))}
    for name in list_made(trace, layout.TIMELINE):
        file = parse_instant_file(name)
        if file is not None and file.state is State.ABORTED:
            aborted.add(str(file.requested_at))
    calls = (line.split() for line in trace)
    promised = {words[-1] for words in calls if words[3] == PROMISE}
    promised.update(list_made(trace, layout.CANCEL))
    return [
        *(f"{at} is committed and aborted" for at in sorted(completed & aborted)),
        *(f"{at} is committed, and was promised not to be" for at in sorted(completed & promised)),
    ]


def _judge_refusals(played: Played) -> list[str]:
    """No write fails but for what completed before it, a plan that may not be cancelled, or what
    happened to its own process."""
    refusals = list(played.refusals)
    for writer in WRITERS:
        end = played.outcome[writer]
        if isinstance(end, Raised) and isinstance(end.error, LenticError):
            refusals.append((writer, end.error))
    return [
        f"{writer} was refused by {type(error).__name__}: {error}"
        for writer, error in refusals
        if not _may_refuse(played, writer, error)
    ]


def _may_refuse(played: Played, writer: str, error: LenticError) -> bool:
    plot = played.plot
    if isinstance(error, WriteConflict):
        if "may not be cancelled" in error.what:
            return not all(asked.cancellable for asked in plot.plans)
        named = re.match(r"\D*(\d{17})", error.what)
        published = {name.partition("_")[0] for name, _ in list_published(played.sim.trace)}
        return named is not None and named[1] in published and "changed" in error.what
    if isinstance(error, LockTimeout):  # who stands still may hold the lock for long
        return plot.has_pauses
    return plot.is_struck(writer)


def _judge_rows(played: Played, rows: dict[str, Any]) -> list[str]:
    findings = []
    winners = {partition: (stamp("base", 1), "base-1") for partition in PARTITIONS}
    expected = {key("base", n, p) for n in range(2) for p in PARTITIONS} | set(
        map(shared, PARTITIONS)
    )
    for writer in WRITERS:
        unknown = is_unknown(played.outcome[writer])
        for number, partitions in _writes_of(played, writer):
            mine = {key(writer, number, partition) for partition in partitions}
            done = number in played.written.get(writer, set())
            there = mine & rows.keys()
            if done and there != mine:
                findings.append(f"{writer} committed {number} and rows are lost: {mine - there}")
            if there and not (done or unknown):
                findings.append(f"{writer} was refused {number} and rows are there: {there}")
            if there and there != mine:
                findings.append(f"half of what {writer} wrote is there: {there}")
            expected |= there
            for partition in partitions if there else ():
                mine_won = (stamp(writer, number), f"{writer}-{number}")
                winners[partition] = max(winners[partition], mine_won)
    if rows.keys() != expected:
        findings.append(f"rows differ: {rows.keys() ^ expected}")
    for partition, winner in winners.items():
        if rows.get(shared(partition)) != winner:
            findings.append(f"in {partition} {winner} is lost for {rows.get(shared(partition))}")
    return findings


def _writes_of(played: Played, writer: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """What a writer calls each of its batches, and the partitions it is for."""
    return zip(NUMBERS, share(played.plot.writes, WRITERS, writer), strict=True)


def _judge_snapshots(played: Played, rows: dict[str, Any]) -> list[str]:
    """Readers saw no row and no half of a write that is not there at the end."""
    snapshots = [*played.snapshots, frozenset(rows)]
    findings = judge_snapshots(snapshots)
    for seen in played.snapshots:
        for writer in WRITERS:
            for number, partitions in _writes_of(played, writer):
                mine = {key(writer, number, partition) for partition in partitions}
                if seen & mine not in (set(), mine):
                    findings.append(f"half of a write was seen: {seen & mine} of {mine}")
    return findings


# --- liveness -----------------------------------------------------------------------------------


def _run_to_rest(table: Table) -> None:
    storage = table._opened.storage
    for _ in range(LAST_RUNS):
        for plan in load_timeline(storage).pending(Action.CLUSTERING):
            with suppress(Conflict):  # what cannot succeed any more is ended, and that is said
                table.execute(str(plan.requested_at))
        table.clean(wait=True)
        table.archive()


def _judge_rest(storage: Storage) -> list[str]:
    timeline = load_timeline(storage)
    findings = [f"{instant} is still pending" for instant in timeline.pending()]
    findings += [f"{path} is left" for path in list_leftovers(storage)]
    for folder in (layout.CANCEL, layout.HEARTBEATS, layout.GUARDS, layout.TEMP):
        findings += [f"{file.path} is left" for file in storage.walk(folder)]
    ended = {str(i.requested_at) for i in (*timeline.aborted(), *load_aborted(storage))}
    for file in storage.list_files(layout.TIMELINE):
        instant = parse_instant_file(file.name)
        if instant and str(instant.requested_at) in ended and instant.state is not State.ABORTED:
            findings.append(f"{file.name} is left, and other engines take it for pending")
    return findings


def _judge_use(table: Table, rows: dict[str, Any]) -> list[str]:
    """Nobody is in the way any more: what is planned is done until nothing is left to plan, and
    then no partition was forgotten (R11)."""
    findings = []
    table.upsert(batch("base", 9, PARTITIONS[:1]))
    for _ in range(PLANS_MAX):
        at = Asked().schedule(table)
        if at is None:
            break
        if not table.execute(at).instant.is_completed:
            findings.append("a clustering that nobody disturbs does not complete")
    else:
        findings.append("planning comes to no end")
    storage = table._opened.storage
    timeline, history = load_timeline(storage), load_history(storage).instants
    clusterings = {i.requested_at for i in (*timeline.completed(REPLACE), *history)}
    for part in table.file_slices():
        if part.logs or part.base is None or part.base.name.requested_at not in clusterings:
            findings.append(f"{part.group} was not clustered, and nobody plans to")
    now = rows_of(table)
    if {k: now.get(k) for k in rows if k != shared(PARTITIONS[0])} != {
        k: v for k, v in rows.items() if k != shared(PARTITIONS[0])
    }:
        findings.append(f"the next clusterings changed the rows: {rows} -> {now}")
    return findings
