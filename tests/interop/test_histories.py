"""Random histories by Apache Hudi: lentic reads the rows that Hudi reads.

    LENTIC_HISTORIES=60         how many histories (4 unless told)
    LENTIC_HISTORY_SEED=17      the first one's seed (0)
    LENTIC_HISTORY_STEPS=0,3,5  only these steps of each, to find the few that matter (all)

A failure tells seed, shape and steps, and keeps the table. A table that lentic refuses as
unsupported is an expected failure with the reason; other rows than Hudi's never are.
"""

from __future__ import annotations

import inspect
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

import lentic
from lentic.errors import UnsupportedFormat
from tests.interop.compare import RowsDiffer, ensure_same_rows
from tests.interop.histories import LENGTH_MIN, MERGE_ON_READ, History, make_history
from tests.interop.history_player import Player, make_batch
from tests.interop.readers import ApacheHudi, EngineFailed, hudi_rs_rows

FIRST = int(os.environ.get("LENTIC_HISTORY_SEED", "0"))
AMOUNT = int(os.environ.get("LENTIC_HISTORIES", "4"))
STEPS = [int(number) for number in os.environ.get("LENTIC_HISTORY_STEPS", "").split(",") if number]

_QUERY = "hoodie.datasource.query.type"


@dataclass(slots=True)
class Look:
    """Compares what lentic reads now with what Hudi does; gathers what lentic does not support."""

    player: Player
    rng: random.Random
    unsupported: list[str] = field(default_factory=list)

    def all(self) -> None:
        """Every query that both engines offer."""
        self.compare("snapshot", self.snapshot, {})
        reads = inspect.signature(lentic.Table.read).parameters
        if "mode" in reads and self.player.shape.table_type == MERGE_ON_READ:
            self.compare("read-optimized", self.read_optimized, {_QUERY: "read_optimized"})
        if hasattr(lentic.Table, "changes"):
            after = self.rng.choice(self.player.writes()).completed_at
            options = {
                _QUERY: "incremental",
                "hoodie.datasource.read.begin.instanttime": after,
            }
            self.compare(f"changes after {after}", lambda: self.changes(after), options)

    def snapshot(self) -> pa.Table:
        return lentic.open(str(self.player.path)).read()

    def read_optimized(self) -> pa.Table:
        return lentic.open(str(self.player.path)).read(mode="read_optimized")

    def changes(self, after: str) -> pa.Table:
        return lentic.open(str(self.player.path)).changes(after=after)

    def compare(self, what: str, read: Callable[[], pa.Table], options: dict[str, str]) -> None:
        """Raises `RowsDiffer` unless lentic reads Hudi's rows, or says that it cannot."""
        path, key = str(self.player.path), self.player.shape.row_key
        try:
            theirs = self.player.hudi.rows(path, **options)
        except EngineFailed:
            if not options:
                raise
            return  # files that an old window needs may have been cleaned
        if self.player.shape.odd_values:
            theirs = _with_values(theirs, self.player.shape.values)
        try:
            ours = read()
        except UnsupportedFormat as refusal:
            self.unsupported.append(f"{what} after {self.player.done} steps: {refusal.what}")
            return
        try:
            ensure_same_rows(theirs, ours, key, "Apache Hudi", "lentic")
        except RowsDiffer as difference:
            difference.add_note(f"{what} after {self.player.done} steps")
            if not options:
                difference.add_note(_third_opinion(path, key, theirs))
            raise


def _with_values(rows: pa.Table, values: tuple[str, ...]) -> pa.Table:
    """Hudi's incremental reader shows partition paths where the values belong, escapes and all."""
    texts = rows.column("part").to_pylist()
    meant = [text if text in values else unquote(text) for text in texts]
    return rows.set_column(rows.schema.get_field_index("part"), "part", pa.array(meant))


def _third_opinion(path: str, key: tuple[str, ...], theirs: pa.Table) -> str:
    try:
        ensure_same_rows(theirs, hudi_rs_rows(path), key, "Apache Hudi", "hudi-rs")
    except (EngineFailed, RowsDiffer) as other:
        return f"hudi-rs does not decide it: {other}"
    return "hudi-rs agrees with Apache Hudi"


def _play(history: History, player: Player) -> Look:
    look = Look(player, random.Random(history.seed))
    try:
        for step in history.steps:
            if player.done >= history.length:
                break
            before = player.done
            try:
                player.play(step)
            except EngineFailed as refusal:
                # Hudi's own affair; what it leaves behind must be read alike all the same.
                look.unsupported.append(f"Apache Hudi refused a step: {refusal}")
                break
            if before < player.done == history.midway:
                look.all()
        look.all()
    except Exception as failure:
        told = [f"seed {history.seed}, kept in {player.path}", str(history.shape), *player.trace]
        if isinstance(failure, RowsDiffer):
            notes = getattr(failure, "__notes__", [])
            pytest.fail("\n".join([str(failure), *notes, *told]), pytrace=False)
        failure.add_note("\n".join(told))
        raise
    return look


@pytest.mark.interop
@pytest.mark.parametrize("seed", range(FIRST, FIRST + AMOUNT))
def test_lentic_reads_the_rows_that_hudi_reads_after_any_history(
    seed: int, apache_hudi: ApacheHudi
) -> None:
    history = make_history(seed)
    if STEPS:
        history = history.only(STEPS)
    # Not a folder of pytest's, which the next runs would clear away with the evidence in it.
    folder = Path(tempfile.mkdtemp(prefix=f"lentic-history-{seed}-"))
    player = Player(apache_hudi, folder / "table", history.shape)
    look = _play(history, player)
    shutil.rmtree(folder)
    if look.unsupported:
        pytest.xfail("; ".join(look.unsupported))
    assert STEPS or player.done >= LENGTH_MIN


def test_a_seed_gives_the_same_history_and_rows_every_time() -> None:
    for seed in range(40):
        history = make_history(seed)
        assert history == make_history(seed)
        batches = [step.batch for step in history.steps if step.batch]
        for batch in batches[:2]:
            rows = make_batch(history.shape, batch)
            assert rows.equals(make_batch(history.shape, batch))
            assert set(rows.column("part").to_pylist()) <= set(batch.values)


def test_histories_cover_every_kind_of_step_and_table() -> None:
    histories = [make_history(seed) for seed in range(60)]
    kinds = {step.kind for history in histories for step in history.steps[: history.length]}
    assert len(kinds) == 23, sorted(kinds)
    shapes = [history.shape for history in histories]
    for name, least in (
        ("table_type", 2), ("index", 4), ("key", 3), ("partition", 3), ("ordering", 6),
        ("merge_mode", 2), ("hive_style", 2), ("odd_values", 2), ("soft_deletes", 2),
        ("metadata", 2), ("version", 2),
    ):  # fmt: skip
        assert len({getattr(shape, name) for shape in shapes}) >= least, name
