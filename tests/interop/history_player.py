"""Plays a history on Apache Hudi: each step of `histories.py` as Hudi's users would do it.

A step that makes no sense at the point where it comes (nothing to roll back) is skipped. A step
that Hudi itself refuses is an `EngineFailed`, after which the history cannot go on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.interop.histories import Batch, Shape, Step
from tests.interop.readers import ApacheHudi
from tests.rows import make_rows

WRITES = frozenset({"commit", "deltacommit", "replacecommit"})
_COMPLETED = re.compile(r"(\d+)_(\d+)\.([a-z]+)")
_PENDING = re.compile(r"(\d+)\.(?:[a-z]+\.)?(?:requested|inflight)")
_OPERATION = "hoodie.datasource.write.operation"
_IS_DELETED = "_hoodie_is_deleted"
_FIRST_DAY = 19_723
# What stands for null in the ordering columns.
_LEAST = {
    "at": datetime(2024, 1, 1, tzinfo=UTC),
    "score": 0.0,
    "price": Decimal(0),
    "name": "",
    "small": 0,
}


@dataclass(frozen=True, slots=True, order=True)
class Done:
    """A completed instant."""

    requested_at: str
    completed_at: str
    action: str


@dataclass(slots=True)
class Player:
    """One table that a history is played on; `trace` tells what became of each step."""

    hudi: ApacheHudi
    path: Path
    shape: Shape
    trace: list[str] = field(default_factory=list)
    done: int = 0

    def play(self, step: Step) -> None:
        """Does the step, or skips it where it makes no sense."""
        number = len(self.trace)
        self.trace.append(f"{number:2} {step} -> REFUSED")
        outcome = _PLAYERS.get(step.kind, _write)(self, step)
        self.trace[-1] = f"{number:2} {step} -> {outcome}"
        self.done += not outcome.startswith("skipped")

    def completed(self) -> list[Done]:
        """The active timeline's completed instants, oldest first."""
        found = (_COMPLETED.fullmatch(name) for name in self._names())
        return sorted(Done(*match.groups()) for match in found if match)

    def writes(self) -> list[Done]:
        """Those of them that changed rows."""
        return [instant for instant in self.completed() if instant.action in WRITES]

    def has_pending(self) -> bool:
        """Whether anything was begun and not completed."""
        return not self.begun() <= {instant.requested_at for instant in self.completed()}

    def begun(self) -> set[str]:
        """When each instant of the active timeline was requested."""
        return {match[1] for name in self._names() if (match := _PENDING.fullmatch(name))}

    def partitions(self) -> list[str]:
        """The paths of the table's partitions."""
        marks = self.path.rglob(".hoodie_partition_metadata")
        return sorted(str(mark.parent.relative_to(self.path)) for mark in marks)

    def write(self, operation: str, rows: pa.Table, step: Step, **options: str) -> None:
        """One write with the options of table and step."""
        given = {**self.shape.options, **step.options, **options, _OPERATION: operation}
        self.hudi.write(str(self.path), rows, given)

    def sql(self, *statements: str, **views: pa.Table) -> list[list[str]]:
        """Statements with the table's options in force."""
        own = ("hoodie.table.", "hoodie.datasource.write.table.type")
        settings = {k: text for k, text in self.shape.options.items() if not k.startswith(own)}
        return self.hudi.sql(str(self.path), *statements, views=views, settings=settings)

    def _names(self) -> list[str]:
        return [file.name for file in (self.path / ".hoodie" / "timeline").iterdir()]


def make_batch(shape: Shape, batch: Batch) -> pa.Table:
    """The rows of a batch, in the table's columns."""
    rng = np.random.default_rng(batch.seed)
    rows = make_rows(batch.first, batch.last, batch.ts, batch.seed)
    keys = np.arange(batch.first, batch.last) + batch.shift
    rows = _with(rows, "ts", pa.array(batch.ts + rng.integers(-12, 3, len(keys))))
    rows = _with(rows, "part", pa.array([shape.values[key % len(shape.values)] for key in keys]))
    if "day" in shape.partition:
        rows = _with(rows, "day", pa.array(_FIRST_DAY + keys % 2, pa.int32()).cast(pa.date32()))
    for name in shape.ordering:
        if name in _LEAST:
            least = pa.scalar(_LEAST[name], rows.schema.field(name).type)
            rows = _with(rows, name, pc.fill_null(rows.column(name), least))
    rows = rows.select([name for name in rows.column_names if name in shape.columns])
    if shape.soft_deletes:
        rows = rows.append_column(_IS_DELETED, pa.array(rng.random(len(keys)) < 0.15))
    if batch.evolved:
        rows = rows.append_column(
            "added", pa.array([f"a{key}" if key % 3 else None for key in keys])
        )
        if "small" in rows.column_names:
            rows = _with(rows, "small", rows.column("small").cast(pa.int64()))
    return rows.filter(pc.is_in(rows.column("part"), pa.array(batch.values)))


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values)


# --- one function per kind of step ------------------------------------------------------------


def _write(player: Player, step: Step) -> str:
    operation = "upsert" if step.kind == "log_compact" else step.kind
    rows = _batch(player, step)
    if rows.num_rows == 0:
        return "skipped, no rows"
    player.write(operation, rows, step)
    return f"{rows.num_rows} rows"


def _batch(player: Player, step: Step) -> pa.Table:
    assert step.batch is not None
    return make_batch(player.shape, step.batch)


def _delete(player: Player, step: Step) -> str:
    rows = _batch(player, step)
    if player.shape.soft_deletes:
        rows = _with(rows, _IS_DELETED, pa.array([True] * rows.num_rows))
    player.write("delete", rows, step)
    return f"{rows.num_rows} keys"


def _delete_partition(player: Player, step: Step) -> str:
    if not (partitions := player.partitions()):
        return "skipped, no partition"
    chosen = partitions[step.seed % len(partitions)]
    any_row = make_batch(
        player.shape, Batch(first=0, last=1, ts=0, seed=0, values=player.shape.values)
    )
    key = "hoodie.datasource.write.partitions.to.delete"
    player.write("delete_partition", any_row, step, **{key: chosen})
    return chosen


def _sql_update(player: Player, step: Step) -> str:
    player.sql(
        f"update target set name = concat('u', seq), ts = ts + 2 where seq % 5 = {step.seed % 5}"
    )
    return "updated"


def _sql_delete(player: Player, step: Step) -> str:
    player.sql(f"delete from target where seq % 9 = {step.seed % 9}")
    return "deleted"


def _merge_into(player: Player, step: Step) -> str:
    """Some columns of the matched rows: partial updates on merge-on-read.

    With the bucket index Hudi 1.2.0 takes every key for matched. A partial update of a row that
    does not exist then breaks its reader, up to the end of its JVM, so such rows are left out here.
    """
    rows = _batch(player, step)
    named = dict.fromkeys([*player.shape.row_key, "ts", "name", *player.shape.ordering])
    match = " and ".join(f"t.{name} = s.{name}" for name in player.shape.row_key)
    changed = dict.fromkeys(["name", "ts", *player.shape.ordering])
    sets = ", ".join(f"t.{name} = s.{name}" for name in changed)
    source = f"select {', '.join(named)} from changes"
    if player.shape.index == "BUCKET":
        found = " and ".join(f"changes.{name} = target.{name}" for name in player.shape.row_key)
        source += f" left semi join target on {found}"
    player.sql(
        f"merge into target t using ({source}) s on {match} when matched then update set {sets}",
        changes=rows.select(list(named)),
    )
    return f"{rows.num_rows} rows"


def _compact(player: Player, step: Step) -> str:
    op = {"compact": "scheduleAndExecute", "schedule_compaction": "schedule"}.get(
        step.kind, "execute"
    )
    options = "options => 'hoodie.compact.inline.max.delta.commits=1'"
    told = player.sql(f"call run_compaction(op => '{op}', table => 'target', {options})")
    return str(told) if told else "skipped, nothing to compact"


def _cluster(player: Player, step: Step) -> str:
    op = {"cluster": "scheduleAndExecute", "schedule_clustering": "schedule"}.get(
        step.kind, "execute"
    )
    options = "options => 'hoodie.clustering.plan.strategy.small.file.limit=10000000'"
    before = player.begun()
    told = player.sql(f"call run_clustering(op => '{op}', table => 'target', {options})")
    return str(told) if player.begun() != before or told else "skipped, nothing to cluster"


def _clean(player: Player, step: Step) -> str:
    retained = 1 + step.seed % 3
    told = player.sql(f"call run_clean(table => 'target', retain_commits => {retained})")
    return str(told) if told else "skipped, nothing to clean"


def _savepoint(player: Player, step: Step) -> str:
    if not (writes := player.writes()):
        return "skipped, nothing to save"
    last = writes[-1].requested_at
    player.sql(f"call create_savepoint(table => 'target', commit_time => '{last}')")
    return last


def _release(player: Player, step: Step) -> str:
    if (at := _saved(player)) is None:
        return "skipped, no savepoint"
    player.sql(f"call delete_savepoint(table => 'target', instant_time => '{at}')")
    return at


def _restore(player: Player, step: Step) -> str:
    if (at := _saved(player)) is None:
        return "skipped, no savepoint"
    after = [instant for instant in player.completed() if instant.requested_at > at]
    if player.has_pending() or after != sorted(after, key=lambda instant: instant.completed_at):
        # Hudi undoes in the order of completion, and then finds a later instant in its way.
        return "skipped, instants overlap"
    player.sql(f"call rollback_to_savepoint(table => 'target', instant_time => '{at}')")
    return at


def _saved(player: Player) -> str | None:
    saved = [done.requested_at for done in player.completed() if done.action == "savepoint"]
    return saved[-1] if saved else None


def _last_write(player: Player) -> Done | None:
    """The newest completed instant, if it is a write that nothing depends on yet."""
    completed = player.completed()
    if player.has_pending() or len(player.writes()) < 2:
        return None
    last = max(completed, key=lambda instant: instant.completed_at)
    is_saved = any(
        done.action == "savepoint" and done.requested_at == last.requested_at for done in completed
    )
    return last if last.action in WRITES and last == completed[-1] and not is_saved else None


def _rollback(player: Player, step: Step) -> str:
    if (last := _last_write(player)) is None:
        return "skipped, nothing to roll back"
    player.sql(
        f"call rollback_to_instant(table => 'target', instant_time => '{last.requested_at}')"
    )
    return last.requested_at


def _crash(player: Player, step: Step) -> str:
    """As if the writer had died right before it completed its instant: all files, no commit."""
    if (last := _last_write(player)) is None or last.action == "replacecommit":
        return "skipped, nothing to crash"
    timeline = player.path / ".hoodie" / "timeline"
    name = f"{last.requested_at}_{last.completed_at}.{last.action}"
    (timeline / name).unlink()
    (timeline / f".{name}.crc").unlink(missing_ok=True)
    return last.requested_at


_PLAYERS: dict[str, Callable[[Player, Step], str]] = {
    "delete": _delete,
    "delete_partition": _delete_partition,
    "sql_update": _sql_update,
    "sql_delete": _sql_delete,
    "merge_into": _merge_into,
    "compact": _compact,
    "schedule_compaction": _compact,
    "run_compaction": _compact,
    "cluster": _cluster,
    "schedule_clustering": _cluster,
    "run_clustering": _cluster,
    "clean": _clean,
    "savepoint": _savepoint,
    "release": _release,
    "restore": _restore,
    "rollback": _rollback,
    "crash": _crash,
}
