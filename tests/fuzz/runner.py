"""Runs all cases of one kind in child processes and gathers the verdicts.

A child that says nothing for ten seconds hangs and is stopped; one that dies was crashed by its
case. Either way the next child goes on with the case after that one.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.fuzz.case import RIGHT, Outcome, Verdict, decode_verdict

SECONDS_MAX = 10
SETUP_SECONDS_MAX = 120
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Tally:
    """The verdicts of one kind, added up."""

    kind: str
    verdicts: list[Verdict] = field(default_factory=list)

    def of(self, group: str) -> list[Verdict]:
        """The verdicts of one group of cases."""
        return [verdict for verdict in self.verdicts if verdict.group == group]

    def line(self, group: str) -> str:
        """The figures of one group."""
        return f"{self.kind}, {group}: {len(self.of(group))} cases: {_shown(self.of(group))}"

    def summary(self) -> str:
        """The figures of all, and what one case took at most."""
        memory = max((verdict.mib for verdict in self.verdicts), default=0)
        slowest = max((verdict.ms for verdict in self.verdicts), default=0)
        return (
            f"{self.kind}: {len(self.verdicts)} cases: {_shown(self.verdicts)}; "
            f"at most {memory:.0f} MiB and {slowest:.0f} ms each"
        )


def is_excused(verdict: Verdict) -> bool:
    """Whether the damage cannot be noticed by anyone, and did no more than change the answer; or
    ended the process in a reader that is not ours."""
    if verdict.excuse == "ARROW_ABORTS":
        return verdict.outcome is Outcome.DIED
    return verdict.outcome is Outcome.WRONG and bool(verdict.excuse)


def is_failure(verdict: Verdict) -> bool:
    return verdict.outcome not in RIGHT and not is_excused(verdict)


def _shown(verdicts: list[Verdict]) -> str:
    """How often each outcome came up; what is excused counts under its class."""
    labels = Counter(v.excuse if is_excused(v) else str(v.outcome) for v in verdicts)
    return ", ".join(f"{count} {label}" for label, count in sorted(labels.items()))


def run_all(kind: str) -> Tally:
    """Every case of the kind, whatever happens to the processes that run them."""
    tally = Tally(kind)
    while not _run_child(kind, tally):
        pass
    return tally


def _run_child(kind: str, tally: Tally) -> bool:
    """Go on after the last verdict; whether the child got to the end."""
    begun = Verdict(len(tally.verdicts), "?", "making the cases", Outcome.DIED)
    with _start(kind, len(tally.verdicts)) as child:
        lines = _lines(child)
        patience = SETUP_SECONDS_MAX
        try:
            while line := lines.get(timeout=patience):
                verdict = decode_verdict(line)
                if verdict.outcome is Outcome.BEGUN:
                    begun = verdict
                else:
                    tally.verdicts.append(verdict)
                patience = SECONDS_MAX
            outcome = Outcome.DIED
        except queue.Empty:
            child.kill()
            outcome = Outcome.HUNG
        status = child.wait()
    if status == 0 and outcome is Outcome.DIED:
        return True
    is_made = begun.outcome is Outcome.BEGUN and begun.number == len(tally.verdicts)
    assert is_made, f"the cases of {kind} do not run: {outcome}, status {status}"
    tally.verdicts.append(replace(begun, outcome=outcome, detail=f"status {status}"))
    return False


def _lines(child: subprocess.Popen[bytes]) -> queue.Queue[bytes]:
    """What the child says, line by line; an empty one at the end."""
    assert child.stdout is not None
    stream = child.stdout
    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put(b"")

    threading.Thread(target=read, daemon=True).start()
    return lines


def _start(kind: str, first: int) -> subprocess.Popen[bytes]:
    """The child; Arrow takes memory from the system, so that limits are felt at once."""
    settings = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
    paths = [str(_ROOT / "src"), str(_ROOT)]
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.child", kind, str(first)],
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        env=os.environ | settings | {"PYTHONPATH": os.pathsep.join(paths)},
    )
