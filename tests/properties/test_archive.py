"""Random histories archived at random points: whatever could be read before is read after.

Writes, deletes, compactions and failed writes come in any order, with an archival after some of
them. A second table that is never archived is the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lentic.engine import LocalEngine
from lentic.format.names import Action
from lentic.services.archive import archive_timeline
from lentic.services.rollback import roll_back
from lentic.table import Table
from lentic.timeline.history import load_history
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.write.commit import begin_write
from tests.rfc.claims import says
from tests.unit import builders
from tests.unit.builders import clock_of, new_table

EXAMPLES = int(os.environ.get("LENTIC_EXAMPLES", "1500")) // 100
SCHEMA = pa.schema([field.with_nullable(True) for field in builders.SCHEMA])

Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "delete", "compact", "fail", "archive"]),
        st.integers(0, 5),
    ),
    min_size=6,
    max_size=20,
)


def rows(number: int) -> pa.Table:
    given = [(f"k{(number + n) % 7}", number, f"d{n % 2}") for n in range(3)]
    return builders.rows(*given).cast(SCHEMA)


def fail(table: OpenTable) -> None:
    roll_back(table, begin_write(table, Action.DELTACOMMIT).instant)


def play(table: OpenTable, steps: list[Step], *, archives: bool) -> None:
    api = Table(table, LocalEngine(threads=1))
    acts: dict[str, Callable[[int], object]] = {
        "upsert": lambda number: api.upsert(rows(number)),
        "delete": lambda number: api.delete(rows(number).select(["id", "day"])),
        "compact": lambda number: api.compact(),
        "fail": lambda number: fail(table),
        "archive": lambda number: archive_timeline(table) if archives else None,
    }
    for at, (name, number) in enumerate(steps):
        clock_of(table).ms = builders.START_MS + 1000 * (at + 1)  # equal times in both tables
        acts[name](number)


def ordered(found: pa.Table) -> list[str]:
    return sorted(map(str, found.to_pylist()))


def make(batch: int) -> OpenTable:
    return new_table(
        schema=SCHEMA,
        options={
            "hoodie.keep.min.commits": 1,
            "hoodie.keep.max.commits": 2,
            "hoodie.timeline.compaction.batch.size": batch,
        },
    )


@says("rfc66.plan.lookup", "N7", "P18", "P21")
@settings(max_examples=EXAMPLES, deadline=None, phases=(Phase.generate,))
@given(STEPS, st.integers(2, 4))
def test_an_archived_table_answers_as_one_that_never_was(steps: list[Step], batch: int) -> None:
    archived, model = make(batch), make(batch)
    play(archived, steps, archives=True)
    play(model, steps, archives=False)
    one, other = (Table(table, LocalEngine(threads=1)) for table in (archived, model))
    instants = load_timeline(model.storage).completed()
    past = load_history(archived.storage).instants
    assert sorted(map(str, (*past, *load_timeline(archived.storage).completed()))) == sorted(
        map(str, instants)
    )
    assert ordered(one.read()) == ordered(other.read())
    for instant in load_timeline(model.storage).writes():
        at, after = str(instant.requested_at), str(instant.completed_at)
        assert ordered(one.read(as_of=at)) == ordered(other.read(as_of=at))
        assert ordered(one.changes(after=after)) == ordered(other.changes(after=after))
        cdc = one.changes(after=after, kind="cdc")
        assert ordered(cdc) == ordered(other.changes(after=after, kind="cdc"))
    assert one.verify() == []
