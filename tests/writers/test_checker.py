"""The checker is silent on a healthy history, and finds every kind of violation planted in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from tests.writers.checker import Kind, aborted, check
from tests.writers.history import (
    Freeze,
    History,
    Instant,
    Outcome,
    Sight,
    Window,
    Write,
    decode_seen,
    encode_seen,
    sights_of,
    windows_of,
    writes_of,
)
from tests.writers.ledger import INTENT, OUTCOME, Ledger, load_entries
from tests.writers.workload import (
    COLUMNS,
    COMMIT,
    KEY,
    Shape,
    WriteId,
    make_batch,
    order_value,
    summarize,
)

SHAPE = Shape(own=4, hot=3)


def ok(writer: str, seq: int, begun: int, requested: int, completed: int) -> Write:
    return Write(
        (writer, seq), begun * 10, completed * 10 + 1, Outcome.OK, f"{requested}", f"{completed}"
    )


W0_0 = ok("w0", 0, 100, 101, 110)
W1_0 = ok("w1", 0, 102, 103, 112)  # meets the one before
W0_1 = ok("w0", 1, 115, 116, 125)
REFUSED = Write(("w1", 1), 1150, 1180, Outcome.REFUSED, error="WriteConflict")
LANDED = Write(("w1", 2), 1190)  # killed: nobody knows, but it did land, at 130
VANISHED = Write(("w1", 3), 1400)  # killed: nobody knows, and it never landed
W0_2 = ok("w0", 2, 135, 136, 140)
WRITES = (W0_0, W1_0, W0_1, REFUSED, LANDED, VANISHED, W0_2)
TIMES = {write.id: (int(write.requested_at), int(write.completed_at)) for write in WRITES[:3]} | {
    LANDED.id: (120, 130),
    W0_2.id: (136, 140),
}


def rows_of(*ids: WriteId, times: dict[WriteId, tuple[int, int]] = TIMES) -> pa.Table:
    """The table that holds these writes."""
    hot: dict[str, WriteId] = {}
    for key in SHAPE.hot_keys():
        hot[key] = max(ids, key=lambda id: (order_value(key, id), times[id][1]))
    kept = []
    for id in ids:
        rows = make_batch(id, SHAPE).to_pylist()
        mine = [row for row in rows if row["n"] >= 0 or hot[row[KEY]] == id]
        kept += [row | {COMMIT: str(times[id][0])} for row in mine]
    return pa.Table.from_pylist(kept)


def ids_at(at: int) -> list[WriteId]:
    return [id for id, (_, completed) in TIMES.items() if completed <= at]


def sight(at: int, *, reader: str = "r", upto: int = 0, rows: pa.Table | None = None) -> Sight:
    table = rows_of(*ids_at(at)) if rows is None else rows
    return Sight(reader, at * 10 + 5, str(at), str(upto or at), summarize(table))


HEALTHY = History(
    SHAPE,
    WRITES,
    last=sight(140),
    sights=(
        sight(110),
        sight(112),
        sight(112, upto=125, rows=rows_of(*ids_at(125))),  # a read that asked for no moment
        sight(125),
        sight(130, reader="q"),
        sight(110, reader="again"),
    ),
    windows=(
        Window("r", "000", "112", (W0_0.id, W1_0.id)),
        Window("r", "112", "130", (W0_1.id, LANDED.id)),
    ),
    instants=(
        *(Instant(str(requested), str(completed)) for requested, completed in TIMES.values()),
        Instant("137", ""),
    ),
)


def with_sight(history: History, new: Sight) -> History:
    return replace(history, sights=(*history.sights, new))


def changed(at: int, change: Callable[[list[dict[str, object]]], object]) -> Sight:
    """A read whose rows were changed."""
    rows = rows_of(*ids_at(at)).to_pylist()
    change(rows)
    return sight(at, reader="x", rows=pa.Table.from_pylist(rows))


def end_with(rows: pa.Table) -> History:
    return replace(HEALTHY, last=sight(140, rows=rows))


def with_write(write: Write, **fields: object) -> History:
    new = replace(write, **fields)  # type: ignore[arg-type]
    return replace(HEALTHY, writes=tuple(new if w.id == new.id else w for w in WRITES))


def rival(rows: list[dict[str, object]]) -> None:
    """Another version of a hot key wins."""
    at = next(i for i, row in enumerate(rows) if row[KEY] == "hot-0")
    others = [id for id in ids_at(125) if id != (rows[at]["writer"], rows[at]["seq"])]
    theirs = make_batch(others[0], SHAPE).to_pylist()
    rows[at] = next(row for row in theirs if row[KEY] == "hot-0") | {COMMIT: "101"}


def test_a_healthy_history_has_no_violation() -> None:
    assert check(HEALTHY) == []


REFUSED_ROWS = rows_of(*ids_at(140), REFUSED.id, times=TIMES | {REFUSED.id: (118, 119)})
VANISHED_ROWS = rows_of(*ids_at(130), VANISHED.id, times=TIMES | {VANISHED.id: (126, 127)})
STRANGE_ROWS = rows_of(*ids_at(140), ("w9", 7), times=TIMES | {("w9", 7): (126, 127)})
LAST_IDS = ids_at(140)

PLANTED = {
    "an ok write is missing at the end": (Kind.LOST, end_with(rows_of(*LAST_IDS[1:]))),
    "an ok write is missing from one read": (
        Kind.LOST,
        with_sight(HEALTHY, sight(125, reader="x", rows=rows_of(W0_0.id, W0_1.id))),
    ),
    "an unknown write that landed is missing from one read": (
        Kind.LOST,
        with_sight(HEALTHY, sight(130, reader="x", rows=rows_of(*ids_at(125)))),
    ),
    "an ok write has no instant": (Kind.LOST, replace(HEALTHY, instants=HEALTHY.instants[1:])),
    "a hot key is missing": (
        Kind.LOST,
        with_sight(HEALTHY, changed(125, lambda rows: rows.remove(rows[-1]))),
    ),
    "half a write": (Kind.PARTIAL, with_sight(HEALTHY, changed(125, lambda rows: rows.pop(0)))),
    "a row twice": (
        Kind.DOUBLED,
        with_sight(HEALTHY, changed(125, lambda rows: rows.append(rows[0]))),
    ),
    "a hot key twice": (
        Kind.DOUBLED,
        with_sight(HEALTHY, changed(125, lambda rows: rows.append(rows[-1]))),
    ),
    "rows of one write by two commits": (
        Kind.DOUBLED,
        with_sight(HEALTHY, changed(125, lambda rows: rows[0].update({COMMIT: "103"}))),
    ),
    "an ok write by another commit than the writer was told": (
        Kind.DOUBLED,
        end_with(rows_of(*LAST_IDS, times=TIMES | {W0_0.id: (104, 110)})),
    ),
    "a completed instant that nobody claims": (
        Kind.DOUBLED,
        replace(HEALTHY, instants=(*HEALTHY.instants, Instant("131", "133"))),
    ),
    "a refused write at the end": (Kind.REFUSED_SEEN, end_with(REFUSED_ROWS)),
    "a write before it completed": (
        Kind.UNCOMMITTED_SEEN,
        with_sight(HEALTHY, sight(112, reader="x", rows=rows_of(*ids_at(125)))),
    ),
    "an unknown write that was seen and vanished": (
        Kind.UNCOMMITTED_SEEN,
        with_sight(HEALTHY, sight(130, reader="x", rows=VANISHED_ROWS)),
    ),
    "a write that no ledger knows": (Kind.ODD, end_with(STRANGE_ROWS)),
    "a row with another's key": (
        Kind.ODD,
        with_sight(HEALTHY, changed(125, lambda rows: rows[0].update(n=3))),
    ),
    "a hot row with another's order": (
        Kind.ODD,
        with_sight(HEALTHY, changed(125, lambda rows: rows[-1].update(ts=99))),
    ),
    "a loser among the hot keys": (Kind.WRONG_WINNER, with_sight(HEALTHY, changed(125, rival))),
    "a reader to whom a write comes and goes": (
        Kind.WENT_BACK,
        replace(
            HEALTHY,
            sights=(
                sight(112, reader="x", upto=125, rows=rows_of(*ids_at(125))),
                replace(sight(112, reader="x", upto=125), begun_ns=1200),
            ),
        ),
    ),
    "a reader to whom time goes back": (
        Kind.WENT_BACK,
        replace(HEALTHY, sights=(sight(125), replace(sight(112), begun_ns=1400))),
    ),
    "a reader to whom a hot key goes back": (
        Kind.WENT_BACK,
        replace(
            HEALTHY, sights=(sight(125), replace(changed(125, rival), reader="r", begun_ns=1400))
        ),
    ),
    "a read that does not know what was told before it began": (
        Kind.STALE,
        with_sight(HEALTHY, replace(sight(112, reader="x"), begun_ns=1300)),
    ),
    "a moment that changes": (
        Kind.NOT_REPEATABLE,
        with_sight(HEALTHY, sight(112, reader="x", rows=rows_of(*ids_at(125)))),
    ),
    "two writes that completed at one time": (
        Kind.TIMES,
        replace(HEALTHY, instants=(*HEALTHY.instants, Instant("131", "140"))),
    ),
    "a write that completed before it was requested": (
        Kind.TIMES,
        replace(HEALTHY, instants=(*HEALTHY.instants, Instant("131", "126"))),
    ),
    "a write that began later with an earlier time": (
        Kind.TIMES,
        with_write(W0_2, requested_at="124", completed_at="140"),
    ),
    "a change that was never delivered": (
        Kind.CHANGES,
        replace(HEALTHY, windows=(Window("r", "000", "112", (W0_0.id,)),)),
    ),
    "a change delivered in two windows": (
        Kind.CHANGES,
        replace(HEALTHY, windows=(*HEALTHY.windows, Window("r", "130", "140", (W0_1.id, W0_2.id)))),
    ),
    "a change delivered twice in one": (
        Kind.CHANGES,
        replace(HEALTHY, windows=(Window("r", "112", "125", (W0_1.id, W0_1.id)),)),
    ),
    "a writer told to start over": (Kind.ABORTED, with_write(REFUSED, is_aborted=True)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str) -> None:
    kind, history = PLANTED[name]
    assert kind in {violation.kind for violation in check(history)}


def test_every_kind_of_violation_is_planted() -> None:
    assert {kind for kind, _ in PLANTED.values()} == set(Kind)


def test_only_a_frozen_writer_may_be_told_to_start_over() -> None:
    history = with_write(REFUSED, is_aborted=True)
    assert [write.id for write in aborted(history)] == [REFUSED.id]
    assert check(history, may_abort=True) == []
    assert check(replace(history, freezes=(Freeze("w1", 1160, 1170),))) == []
    assert check(replace(history, freezes=(Freeze("w1", 1181, 1185), Freeze("w0", 0, 9999))))


def test_a_ledger_tells_the_history_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "w0.jsonl"
    ledger = Ledger(path)
    for seq, outcome in enumerate(("ok", "refused", "unknown")):
        ledger.add(INTENT, writer="w0", seq=seq)
        told = {"requested_at": "1", "completed_at": "2", "error": "", "aborted": False}
        ledger.add(OUTCOME, writer="w0", seq=seq, outcome=outcome, **told)
    ledger.add(INTENT, writer="w0", seq=3)
    ledger.close()
    with path.open("ab") as file:
        file.write(b'{"kind": "outc')  # killed in the middle of a line
    Ledger(path).close()
    writes = writes_of(load_entries(path))
    assert [str(write.outcome) for write in writes] == ["ok", "refused", "unknown", "unknown"]
    assert [write.ended_ns is None for write in writes] == [False, False, False, True]
    assert writes[0].begun_ns < (writes[0].ended_ns or 0) < writes[1].begun_ns
    assert (writes[0].requested_at, writes[0].completed_at) == ("1", "2")


def test_a_ledger_that_is_damaged_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w0.jsonl"
    path.write_text('{"kind": "begin"}\n{"ki\n{"kind": "intent"}\n')
    with pytest.raises(AssertionError, match="torn line in the middle"):
        load_entries(path)


def test_what_was_seen_goes_through_json() -> None:
    first = HEALTHY.sights[2]
    seen = decode_seen(json.loads(json.dumps(encode_seen(first.seen))))
    assert seen == first.seen
    entry = {
        "kind": "sight",
        "reader": "r",
        "begun_ns": 1125,
        "floor": "112",
        "ceiling": "125",
        "seen": encode_seen(seen),
    }
    assert sights_of([entry]) == (first,)
    window = {"kind": "window", "reader": "r", "after": "1", "upto": "2", "writes": [["w0", 1]]}
    assert windows_of([window]) == (Window("r", "1", "2", (("w0", 1),)),)


def test_the_digest_tells_rows_apart_but_not_their_order() -> None:
    rows = rows_of(*ids_at(125))
    turned = rows.take(pa.array(reversed(range(len(rows)))))
    assert summarize(turned).digest == summarize(rows).digest
    assert summarize(rows.slice(1)).digest != summarize(rows).digest
    assert set(COLUMNS) <= set(rows.column_names)


def test_hot_keys_are_contended() -> None:
    """Late writes do not always win, and some versions are tied."""
    values = [order_value("hot-0", ("w0", seq)) for seq in range(50)]
    rivals = [order_value("hot-0", ("w1", seq)) for seq in range(50)]
    assert any(later < earlier for earlier, later in pairwise(values))
    assert set(values) & set(rivals)
