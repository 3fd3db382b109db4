"""What crowds have in common: the faults that strike their actors, and what must hold of any run.

A crowd plays a seed to its end and judges the run; `list_violations` puts both together.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from lentic.coordination import fenced
from lentic.coordination.lock import Intent
from lentic.errors import LenticError, OutcomeUnknown
from lentic.format import layout
from lentic.table import Table
from lentic.testing.simulation import Crashed, Deadlock, Outcome, Raised, Simulation

Planned = tuple[str, int, str]
"""Who, at which storage call, what: crash before/after/torn, fail before/after, or a pause."""
T = TypeVar("T")
NO_CALLS = ("lock", "unlock", "sleep", "pause", "promise")
"""What a trace tells besides storage calls."""

LEASE_MS = 4_000
PAUSES_MS = (1_000, 6_000, 30_000, 30_000)
KINDS = ("crash before", "crash after", "crash torn", "fail before", "fail after")
PAUSES = tuple(f"pause {ms}" for ms in PAUSES_MS)
HEARTBEAT = {
    "hoodie.client.heartbeat.interval_in_ms": 2_000,
    "hoodie.client.heartbeat.tolerable.misses": 2,
    "hoodie.time.generator.max_expected_clock_skew_ms": 86_400_000,
}


def choose_faults(
    chance: random.Random, names: Iterable[str], share: float, last_call: int
) -> list[Planned]:
    """For some of the actors one fault each, at any of their calls from the fifth on."""
    faults = []
    for name in names:
        if chance.random() < share:
            call = chance.randint(5, last_call)
            faults.append((name, call, chance.choice((*KINDS, *PAUSES))))
    return faults


def choose_aimed(chance: random.Random, trace: Sequence[str]) -> tuple[Planned, ...]:
    """Sleepers at the worst places of a run that was calm: a change of the timeline is decided in
    the lock, and the file that says so not made yet. Others make it, and perhaps undo it."""
    decisions = _list_decisions(trace)
    who, call = chance.choice(decisions)
    faults = [(who, call, f"pause {chance.choice((9_000, 30_000, 60_000))}")]
    other, its_call = chance.choice(decisions)
    if other != who and chance.random() < 0.5:
        kind = chance.choice(("pause 30000", "crash before", "crash after", "fail before"))
        faults.append((other, its_call, kind))
    return tuple(faults)


def _list_decisions(trace: Sequence[str]) -> list[tuple[str, int]]:
    """Who was about to make a file that it had decided on, and at which of its calls."""
    found, calls, last = [], Counter[str](), dict[str, str]()
    for line in trace:
        who, call = line.split()[2:4]
        if call in NO_CALLS:
            continue
        calls[who] += 1
        if (last.get(who), call) == ("put_if_match", "put_if_absent"):
            found.append((who, calls[who]))
        last[who] = call
    return found


def arrange(sim: Simulation, faults: Iterable[Planned]) -> None:
    """Have the faults strike."""
    for name, call, kind in faults:
        what, _, how = kind.partition(" ")
        if what == "crash":
            sim.crash_at(name, call=call, when=how)  # type: ignore[arg-type]
        elif what == "fail":
            sim.fail_at(name, call=call, when=how)  # type: ignore[arg-type]
        else:
            sim.pause_at(name, call=call, pause_ms=int(how))


def describe(plot: object, outcome: dict[str, Outcome], sim: Simulation) -> str:
    """All that one needs to understand a run."""
    return "\n".join([str(plot), *map(str, outcome.items()), *sim.trace])


def list_made(trace: Sequence[str], folder: str) -> list[str]:
    """The names of the files that were made in a folder, in this order."""
    calls = (line.split() for line in trace)
    made = (words[5] for words in calls if words[3:5] == ["put_if_absent", "True"])
    return [path.rpartition("/")[2] for path in made if path.startswith(folder + "/")]


def list_published(trace: Sequence[str]) -> list[tuple[str, str]]:
    """The completed files that appeared on the timeline, each with its completion time."""
    found = []
    for name in list_made(trace, layout.TIMELINE):
        times, _, kind = name.partition(".")
        if "_" in times and "." not in kind:
            found.append((name, times.partition("_")[2]))
    return found


def rows_of(table: Table) -> dict[str, Any]:
    """Every row that a reader sees, by key; a key that is seen twice is a failure."""
    rows = table.read().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), f"a key was seen twice: {rows}"
    return {row["id"]: (row["ts"], row["by"]) for row in rows}


def is_unknown(end: Outcome) -> bool:
    """Whether whoever ended so may have committed or not."""
    return isinstance(end, Crashed) or (
        isinstance(end, Raised) and isinstance(end.error, OutcomeUnknown)
    )


def judge_kinds(outcome: dict[str, Outcome]) -> list[str]:
    """Whoever fails says so with an error of the tree."""
    return [
        f"{name} ended with {type(end.error).__name__}: {end.error}"
        for name, end in outcome.items()
        if isinstance(end, Raised) and not isinstance(end.error, LenticError)
    ]


def judge_snapshots(snapshots: Sequence[frozenset[str]]) -> list[str]:
    """Nothing is deleted here, so that what a reader saw, the next one sees as well."""
    return [
        f"rows were seen and then not: {set(one - other)}"
        for one, other in pairwise(snapshots)
        if not one <= other
    ]


def list_violations(
    seed: int, play: Callable[[int], T], judge: Callable[[T], list[str]]
) -> list[str]:
    """What is wrong with the run of `seed`, a deadlock included, and at last the run itself."""
    played: T | None = None
    try:
        played = play(seed)
        found = judge(played)
    except Deadlock as error:
        return [str(error)]
    except (LenticError, AssertionError) as error:
        return [f"afterwards: {type(error).__name__}: {error}", str(played)]
    return [*found, str(played)] if found else []


def without_r2(patch: pytest.MonkeyPatch) -> None:
    """Looks whether the lock is held, and decides nothing in it."""

    def publish(self: fenced.FencedHeld, intent: Intent) -> bool:
        self.ensure_held()
        return False

    patch.setattr(fenced.FencedHeld, "publish", publish)
