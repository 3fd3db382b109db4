"""What is looked up in the archived timeline is the same with an index in its files and without."""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random

import pyarrow.parquet as pq
import pytest

from lentic.format import layout
from lentic.format.commit_metadata import encode_commit_metadata
from lentic.format.lsm import ArchivedRow, ArchivedTimes, encode_rows, name_rows
from lentic.format.lsm_names import ListedFile, encode_manifest
from lentic.format.names import Action
from lentic.format.times import CompletedAt, RequestedAt
from lentic.storage.base import Storage
from lentic.timeline.history import (
    History,
    find_archived,
    load_archived,
    load_archived_after,
    load_archived_ends,
    load_archived_last,
    load_history,
)
from tests.unit.builders import WrappedStorage, metadata

COUNT, PER_FILE = 600, 150
ACTIONS = (Action.COMMIT, Action.ROLLBACK, Action.REPLACECOMMIT, Action.CLEAN)


def requested(number: int) -> RequestedAt:
    return RequestedAt(f"20260101{number:09d}")


def completed(number: int) -> CompletedAt:
    return CompletedAt(f"20260101{number:09d}")


def make_row(at: int, chance: Random) -> ArchivedRow:
    action = chance.choice(ACTIONS)
    ended = {"p": (f"g{at}",)} if action is Action.REPLACECOMMIT else {}
    content = encode_commit_metadata(metadata(replaced=ended), replaces=bool(ended))
    # Some are slow, and complete after many that were requested later.
    done = at + 1 if chance.random() < 0.9 else at + 200
    times = ArchivedTimes(requested(2 * at), action, completed(2 * done + 1))
    return ArchivedRow(times, content)


ROWS = tuple(make_row(at, Random(at)) for at in range(COUNT))


def without_index(data: bytes) -> bytes:
    """The same rows as another engine writes them."""
    sink = io.BytesIO()
    table = pq.read_table(io.BytesIO(data)).replace_schema_metadata({})
    pq.write_table(table, sink, row_group_size=10)
    return sink.getvalue()


def make_history(change: Callable[[bytes], bytes] = bytes) -> WrappedStorage:
    storage = WrappedStorage()
    listed = []
    for first in range(0, COUNT, PER_FILE):
        rows = ROWS[first : first + PER_FILE]
        name, data = name_rows(rows, 0), change(encode_rows(rows))
        storage.put_if_absent(layout.history_file(str(name)), data)
        listed.append(ListedFile(name, len(data)))
    storage.put_if_absent(layout.history_file("manifest_1"), encode_manifest(listed))
    storage.put_if_absent(layout.HISTORY_VERSION, b"1")
    return storage


def some_of(seed: int) -> frozenset[RequestedAt]:
    """Requested times, of which about half are there."""
    return frozenset(requested(at) for at in Random(seed).sample(range(2 * COUNT + 20), 5))


ASKS: dict[str, Callable[[Storage, int], object]] = {
    "everything": lambda storage, _: load_history(storage),
    "some": lambda storage, seed: load_archived(storage, some_of(seed)),
    "after": lambda storage, seed: load_archived_after(storage, str(completed(2 * seed + 1))),
    "after, of some actions": lambda storage, seed: load_archived_after(
        storage, str(completed(2 * seed + 1)), Action.ROLLBACK, Action.CLEAN
    ),
    "the last of an action": lambda storage, seed: load_archived_last(
        storage, ACTIONS[seed % 4], seed % 7
    ),
    "whether they are there": lambda storage, seed: find_archived(
        storage, {(at, action) for at in some_of(seed) for action in ACTIONS[seed % 3 :]}
    ),
    "all ends": lambda storage, seed: load_archived_ends(storage, requested(2 * seed)),
}


@pytest.mark.parametrize("ask", ASKS)
def test_the_index_changes_no_answer(ask: str) -> None:
    indexed, plain = make_history(), make_history(without_index)
    answers = set()
    for seed in range(0, COUNT, 9):
        answer = ASKS[ask](indexed, seed)
        assert answer == ASKS[ask](plain, seed)
        answers.add(str(answer))
    assert len(answers) > 10 or ask == "everything"


def test_the_end_of_a_group_is_found_with_an_index_and_without() -> None:
    ends = [at for at, row in enumerate(ROWS) if row.times.action is Action.REPLACECOMMIT]
    indexed, plain = make_history(), make_history(without_index)
    for at in ends:
        for storage in (indexed, plain):
            found = load_archived_ends(storage, requested(0), {("p", f"g{at}")})
            assert ROWS[at].times.requested_at in {i.requested_at for i in found.instants}
            done = ROWS[at].times.completed_at
            late = load_archived_ends(storage, RequestedAt(done), {("p", f"g{at}")})
            assert ROWS[at].times.requested_at not in {i.requested_at for i in late.instants}


def test_nothing_is_read_for_a_group_that_never_ended() -> None:
    storage = make_history()
    load_archived_ends(storage, requested(0), {("p", "g0")})
    before = len(storage.calls)
    assert load_archived_ends(storage, requested(0), {("q", "g1"), ("p", "other")}) == History()
    opened = [path for op, path in storage.calls[before:] if op == "open_input"]
    assert opened == []
    assert load_archived_ends(storage, requested(0)).instants


def test_of_many_instants_one_is_read_with_its_row_group_alone() -> None:
    storage = make_history()
    (found,) = load_archived(storage, {ROWS[70].times.requested_at}).instants
    assert found.requested_at == ROWS[70].times.requested_at
    opened = [path for op, path in storage.calls if op == "open_input"]
    assert len(opened) == 1, "the other files cannot have it, and one look is enough"
