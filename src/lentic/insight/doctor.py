"""`doctor`: a check-up of one table, bounded however large it is.

Unless all of the table is asked for, the partitions are looked at that the newest commits of the
active timeline wrote to, so that the cost depends on these and not on the size of the table. What
was not looked at is said. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from lentic.coordination.fenced import decode_state
from lentic.coordination.heartbeat import heartbeat_owner, load_heartbeat
from lentic.errors import Corrupt, LenticError, MissingFile
from lentic.format import layout
from lentic.format.names import State, parse_instant_file
from lentic.format.times import RequestedAt, parse_epoch_ms
from lentic.insight.answers import Finding, Health, Severity
from lentic.insight.checks import HealthFacts, Lock, Writer, check_table
from lentic.insight.facts import Facts
from lentic.insight.load import WRITES_MAX, load_facts, load_stops, load_written_partitions
from lentic.services import next_steps
from lentic.services.archive import list_due
from lentic.services.next_steps import NextStep
from lentic.services.plans import age_s, heartbeat_age_s, list_plans
from lentic.services.verify import verify_listed, verify_table
from lentic.storage.base import Storage
from lentic.timeline.history import load_archived_edge
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable

PARTITIONS_MAX = 100
_FILES_DATED = 200


@dataclass(frozen=True, slots=True)
class Sample:
    """Which partitions are looked at, None for all, and what that leaves out."""

    partitions: frozenset[str] | None
    writes: frozenset[RequestedAt] = frozenset()
    """The writes that were asked for them."""
    left_out: tuple[str, ...] = ()


def check_health(
    table: OpenTable, *, everything: bool = False, partitions_max: int = PARTITIONS_MAX
) -> Health:
    """What ails the table. `everything`: all of its partitions, however long that takes."""
    root = table.storage.root
    try:
        timeline = load_timeline(table.storage)
        sample = Sample(None) if everything else _choose(table.storage, timeline, partitions_max)
        facts = load_facts(table, sample.partitions, sample.writes)
        now = _load(table, facts)
    except LenticError as error:
        remedy = _find_remedy(table, error)
        broken = Finding(Severity.ERROR, "unreadable", _say_unreadable(error), remedy)
        return Health(root, (broken,), (), ("everything else, until that is mended",))
    looked_at = (
        ("instants", len(timeline.instants)),
        ("partitions", len({file.directory for file in facts.files.files})),
        ("files", len(facts.files.files)),
    )
    return Health(root, check_table(now), looked_at, (*sample.left_out, *_blind_spots(table)))


def _find_remedy(table: OpenTable, error: LenticError) -> NextStep | None:
    """What ends the plan that does not read, if it is one. What else is damaged, verify tells; of a
    storage that fails it knows no more than this."""
    if not isinstance(error, Corrupt | MissingFile):
        return None
    with suppress(LenticError):  # which has been said
        for plan in list_plans(table):
            asked = Instant(plan.requested_at, plan.action, State.REQUESTED)
            if not plan.is_readable and asked.file_name in error.where:
                return NextStep(plan.next_command, plan.next_step)
    return next_steps.verify(table.storage.root)


def _say_unreadable(error: LenticError) -> str:
    where = f" [{error.where}]" if error.where else ""
    step = f" Next: {error.next_step}." if error.next_step else ""
    return f"The table does not read: {error.what}{where}{step}"


def _choose(storage: Storage, timeline: Timeline, partitions_max: int) -> Sample:
    """The partitions that were written to last."""
    writes = timeline.writes()[::-1]
    chosen: dict[str, None] = {}
    skipped: set[str] = set()
    written = load_written_partitions(storage, writes[:WRITES_MAX])
    for partitions in written.values():
        for partition in sorted(partitions):
            if partition in chosen or len(chosen) < partitions_max:
                chosen[partition] = None
            else:
                skipped.add(partition)
    left_out = []
    if skipped:
        left_out.append(f"{len(skipped)} partition(s) that were written to less lately")
    if len(writes) > WRITES_MAX:
        left_out.append(
            f"partitions that only the {len(writes) - WRITES_MAX} oldest of "
            f"{len(writes)} active commits wrote to"
        )
    if load_archived_edge(storage):
        left_out.append("partitions that no commit of the active timeline wrote to")
    asked = frozenset(write.requested_at for write in written)
    return Sample(frozenset(chosen), asked, tuple(left_out))


def _load(table: OpenTable, facts: Facts) -> HealthFacts:
    storage, timeline = table.storage, facts.timeline
    if facts.files.partitions is None:
        broken = verify_table(storage)
    else:
        broken = verify_listed(storage, timeline, facts.files)
    return HealthFacts(
        facts=facts,
        ttl_s=table.pulse.ttl_ms / 1000,
        broken=tuple(broken),
        plans=list_plans(table),
        writers=tuple(_load_writers(table, timeline)),
        stale_heartbeats=_stale_heartbeats(storage, facts),
        archive_stop=next(iter(load_stops(storage, timeline)), None),
        archive_due=len(list_due(table, timeline)),
        lock=_load_lock(table),
        skews_ms=tuple(_load_skews(table, timeline)),
    )


def _load_writers(table: OpenTable, timeline: Timeline) -> Iterator[Writer]:
    for instant in timeline.pending(*WRITES):
        at = instant.requested_at
        beat = heartbeat_age_s(table, at)
        owner = "" if beat is None else heartbeat_owner(load_heartbeat(table.storage, at))
        yield Writer(instant, owner, age_s(table, at), beat)


def _stale_heartbeats(storage: Storage, facts: Facts) -> tuple[str, ...]:
    names = {file.name for file in storage.list_files(layout.HEARTBEATS)}
    return tuple(sorted(names - {str(at) for at in facts.pending}))


def _load_lock(table: OpenTable) -> Lock | None:
    """The lock that lies in the table's own storage, if it is of that kind."""
    try:
        state = decode_state(table.storage.read(layout.STORAGE_LOCK), layout.STORAGE_LOCK)
    except (MissingFile, Corrupt):
        return None
    now_ms = table.world.clock.now_ms()
    return Lock(
        owner=f"{state.host}:{state.pid}" if state.host else state.owner,
        is_free=state.is_free,
        age_s=max(0, now_ms - state.since_ms) / 1000,
        over_s=(now_ms - state.valid_until_ms) / 1000,
    )


def _load_skews(table: OpenTable, timeline: Timeline) -> Iterator[tuple[RequestedAt, int]]:
    """How much later the storage dates the requested files of the newest instants than their names
    do. A file is made after its time was issued, so that less than nothing shows a wrong clock."""
    newest = {i.requested_at for i in timeline.instants[-_FILES_DATED:]}
    for file in table.storage.list_files(layout.TIMELINE):
        named = parse_instant_file(file.name)
        if named and named.state is State.REQUESTED and named.requested_at in newest:
            try:
                issued_ms = parse_epoch_ms(named.requested_at, table.config.zone)
            except Corrupt:  # another engine's time
                continue
            yield named.requested_at, file.modified_ms - issued_ms


def _blind_spots(table: OpenTable) -> Iterator[str]:
    if table.storage.info(layout.STORAGE_LOCK) is None:
        yield "whether the table lock is held now: it lies in no file of a storage"
