"""What must be true of a table once a play is over, and what it came to in one line."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa

import lentic
from lentic.services.outcome import Committed
from lentic.table import Table
from lentic.testing.checkers import check_table, list_leftovers
from tests.interop.readers import ApacheHudi
from tests.writers.ballast import NO_BALLAST
from tests.writers.checker import Violation, aborted, check
from tests.writers.conductor import ROOT, Play, load_history
from tests.writers.history import History, Outcome
from tests.writers.ledger import BUSY, FAILED, KILLED, SERVICE, Ledger
from tests.writers.part import Opened, Part
from tests.writers.workload import COLUMNS, KEY, order_value, summarize
from tests.writers.writer import write

_SHOWN_MAX = 20


def ensure_sound(play: Play, history: History, *, may_abort: bool, may_fail: bool = False) -> str:
    """No promise was broken, neither now nor after the next write and compaction, which leave
    nothing behind. What it all came to.

    `may_fail`: the store was made to fail, so services and readers may have too.
    """
    line = summary(play, history)
    _ensure_none(play, line, check(history, may_abort=may_abort))
    failures = [e for e in play.entries() if e["kind"] == FAILED]
    assert may_fail or not failures, f"{line}\n{failures[:3]}"
    done = Counter(e["at"] for e in play.entries() if e.get("outcome") == Committed.__name__)
    assert all(times == 1 for times in done.values()), f"{line}\na plan was completed twice: {done}"
    table = lentic.open(play.table, options=play.options)
    found = check_table(table._opened.storage)
    assert not found, f"{line}\n" + "\n".join(found)
    ensure_tidy(play, table, may_abort=may_abort)
    return line


def ensure_tidy(play: Play, table: Table, *, may_abort: bool) -> None:
    """Two writes, of which the second knows the dead by what the first has seen, and a compaction
    put everything in order."""
    ledger = Ledger(play.ledger("end"))
    part = Part("end", play.table, str(play.ledger("end")), "", play.options, shape=play.shape)
    write(part, ledger, Opened(table, None), 0)
    time.sleep(play.patience_s)
    write(part, ledger, Opened(table, None), 1)
    ledger.close()
    table.compact()
    history = load_history(play)
    line = summary(play, history)
    _ensure_none(play, line, check(history, may_abort=may_abort))
    pending = [str(instant) for instant in table.timeline() if instant.is_pending]
    left = list_leftovers(table._opened.storage)
    assert not pending and not left, f"{line}\n{pending}\n" + "\n".join(left)


def ensure_hudi_agrees(play: Play, hudi: ApacheHudi, *, with_ties: bool) -> None:
    """Apache Hudi reads the same rows. Until logs are compacted it orders versions with equal
    ordering values by requested time and not by completion time, so ties are left out then."""
    table = lentic.open(play.table, options=play.options)
    theirs = hudi.rows(play.table, columns=COLUMNS, where=NO_BALLAST)
    ours = table.read(columns=COLUMNS, filter=NO_BALLAST, meta=True)
    ties = set() if with_ties else find_ties(load_history(play))
    assert summarize(_without(ours, ties)).digest == summarize(_without(theirs, ties)).digest


def find_ties(history: History) -> set[str]:
    """Hot keys for which two writes have the greatest ordering value."""
    seen = history.last.seen.shares
    found = set()
    for key in history.shape.hot_keys():
        values = Counter(order_value(key, id) for id in seen)
        if values and values[max(values)] > 1:
            found.add(key)
    return found


def summary(play: Play, history: History) -> str:
    """How much happened, and with what seed and source it can be played again."""
    entries = play.entries()
    kinds = Counter(entry["kind"] for entry in entries)
    outcomes = Counter(write.outcome for write in history.writes)
    told = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome)
    return (
        f"{len(history.writes)} writes ({told}), {len(aborted(history))} aborted, "
        f"{kinds[SERVICE]} compactions ({kinds[BUSY]} busy), {len(history.sights)} reads, "
        f"{len(history.windows)} windows, {len(history.freezes)} frozen, {kinds[KILLED]} killed, "
        f"{kinds[FAILED]} failed; seed {play.seed}, source {_source()}"
    )


def _ensure_none(play: Play, line: str, violations: list[Violation]) -> None:
    if violations:
        shown = "\n".join(str(violation) for violation in violations[:_SHOWN_MAX])
        raise AssertionError(
            f"{line}\n{len(violations)} violations, {play.options}, ledgers in {play.folder}\n"
            f"{shown}"
        )


def _without(rows: pa.Table, keys: set[str]) -> pa.Table:
    return rows.filter(pa.array([key not in keys for key in rows.column(KEY).to_pylist()]))


def _source(root: Path = ROOT) -> str:
    """The commit that runs, if this is a checkout."""
    command = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
