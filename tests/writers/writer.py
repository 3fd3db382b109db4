"""A writer: upserts one batch after the other, with or without Spark. `python -m` with its part.

It says what it means to do before, and what it was told after, and never does the same again: one
that starts anew with an old ledger goes on with the next number. Only an `OutcomeUnknown` leaves
it in doubt; any other error of ours is a promise that the rows will never be seen.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from lentic.errors import Conflict, LenticError, OutcomeUnknown
from tests.writers.history import Outcome
from tests.writers.ledger import INTENT, OUTCOME, Ledger, load_entries
from tests.writers.part import Opened, Part, my_part, open_table
from tests.writers.workload import make_batch


def main() -> None:
    part, ledger = my_part()
    past = [e["seq"] for e in load_entries(Path(part.ledger)) if e["kind"] == INTENT]
    seq = max(past, default=-1) + 1
    opened = open_table(part, ledger)
    if opened is None:
        return
    for _ in part.turns():
        write(part, ledger, opened, seq)
        seq += 1


def write(part: Part, ledger: Ledger, opened: Opened, seq: int) -> None:
    """One write, from intent to outcome."""
    source = opened.source(make_batch((part.name, seq), part.shape))
    requested_at = completed_at = error = ""
    is_aborted = False
    outcome = Outcome.UNKNOWN
    ledger.add(INTENT, writer=part.name, seq=seq)
    waited_ns = waited_for_core_ns()
    try:
        commit = opened.table.upsert(source)
        requested_at, completed_at = str(commit.requested_at), str(commit.completed_at)
        outcome = Outcome.OK
    except OutcomeUnknown as unknown:
        error = _told(unknown)
    except LenticError as refused:
        error = _told(refused)
        outcome = Outcome.REFUSED
        is_aborted = isinstance(refused, Conflict)
    except Exception:
        error = traceback.format_exc()
        raise
    finally:
        ledger.add(
            OUTCOME,
            writer=part.name,
            seq=seq,
            outcome=outcome,
            requested_at=requested_at,
            completed_at=completed_at,
            error=error,
            aborted=is_aborted,
            waited_ns=waited_for_core_ns() - waited_ns,
        )


def waited_for_core_ns() -> int:
    """How long this thread could have run by now, but had no core to run on; 0 if that is not
    known."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return 0


def _told(error: LenticError) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
