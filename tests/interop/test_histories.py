"""Random histories by Apache Hudi: lentic reads the rows that Hudi reads.

    LENTIC_HISTORIES=60         how many histories (2 unless told)
    LENTIC_HISTORIES_EQUAL=60   so many that are equal: those that Hudi cannot play are made up for
    LENTIC_HISTORY_SEED=17      the first one's seed (0)
    LENTIC_HISTORY_STEPS=0,3,5  only these steps of each, to find the few that matter (all)

A failure tells seed, shape and steps, and keeps the table. A history in which Hudi refuses a step
of its own is an expected failure with the reason, and not one of the equal ones. The run ends with
a line that counts them.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lentic
from tests.interop.compare import RowsDiffer, ensure_same_rows
from tests.interop.histories import LENGTH_MIN, MERGE_ON_READ, History, make_history
from tests.interop.history_player import Player, make_batch
from tests.interop.readers import ApacheHudi, EngineFailed, hudi_rs_rows
from tests.interop.tally import Tally

FIRST = int(os.environ.get("LENTIC_HISTORY_SEED", "0"))
EQUAL = int(os.environ.get("LENTIC_HISTORIES_EQUAL", "0"))
SPARE = 2 + EQUAL // 4
AMOUNT = EQUAL + SPARE if EQUAL else int(os.environ.get("LENTIC_HISTORIES", "2"))
STEPS = [int(number) for number in os.environ.get("LENTIC_HISTORY_STEPS", "").split(",") if number]


@dataclass(slots=True)
class Look:
    """Compares what lentic reads now with what Hudi does."""

    player: Player
    rng: random.Random
    refusal: str = ""
    """The step that Hudi refused, with its reason."""

    def all(self) -> None:
        """Every query that both engines offer."""
        snapshot = self.queried("snapshot")
        self.compare("snapshot", snapshot, self.table().read(meta=True))
        if self.player.shape.table_type == MERGE_ON_READ:
            ours = self.table().read(mode="read_optimized", meta=True)
            self.compare("read-optimized", self.queried("read_optimized"), ours)
        after = self.rng.choice(self.player.writes()).completed_at
        if (changed := self.changed(after)) is not None:
            ours = self.table().changes(after=after, meta=True)
            self.compare(f"changes after {after}", _held(changed, snapshot), ours)

    def table(self) -> lentic.Table:
        """The table, opened anew as by another process."""
        return lentic.open(str(self.player.path))

    def queried(self, query: str, **options: str) -> pa.Table:
        """What Hudi's query returns."""
        given = {"hoodie.datasource.query.type": query, **options}
        return self.player.hudi.rows(str(self.player.path), **given)

    def changed(self, after: str) -> pa.Table | None:
        """What Hudi's incremental query returns; None where it needs files that were cleaned."""
        begin = {"hoodie.datasource.read.begin.instanttime": after}
        try:
            rows = self.queried("incremental", **begin)
        except EngineFailed:
            if not self.player.hudi.is_running:
                raise
            return None
        shape = self.player.shape
        return _with_values(rows, shape.values) if shape.odd_values else rows

    def compare(self, what: str, theirs: pa.Table, ours: pa.Table) -> None:
        """Raises `RowsDiffer` unless lentic reads Hudi's rows."""
        key = _distinct_key(theirs, self.player.shape.row_key)
        try:
            ensure_same_rows(theirs, ours, key, "Apache Hudi", "lentic")
        except RowsDiffer as difference:
            difference.add_note(f"{what} after {self.player.done} steps")
            if what == "snapshot":
                difference.add_note(_third_opinion(str(self.player.path), key, theirs))
            raise


def _distinct_key(rows: pa.Table, key: tuple[str, ...]) -> tuple[str, ...]:
    """What tells Hudi's rows apart, even where it holds a key twice.

    Its simple and bloom indexes look only into base files. A key that was deleted and came back
    while a compaction was pending is afterwards in a log alone, and the next upsert puts it into a
    second file group. The read-optimized query shows such base rows as well. Each of them is
    compared: when and by which task a row was written tells them apart.
    """
    is_distinct = rows.group_by(list(key)).aggregate([]).num_rows == rows.num_rows
    return key if is_distinct else (*key, "_hoodie_commit_seqno")


def _held(changed: pa.Table, snapshot: pa.Table) -> pa.Table:
    """The changes that are in the snapshot.

    On merge-on-read, Hudi's incremental query also returns rows that came late and changed nothing.
    """
    return changed.filter(pc.is_in(_versions(changed), _versions(snapshot)))


def _versions(rows: pa.Table) -> pa.ChunkedArray:
    """Which version of which record each row is, as one text."""
    names = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time")
    return pc.binary_join_element_wise(*(rows.column(name) for name in names), "\n")


def _with_values(rows: pa.Table, values: tuple[str, ...]) -> pa.Table:
    """Hudi's incremental reader shows partition paths where the values belong, escapes and all."""
    texts = rows.column("part").to_pylist()
    meant = [text if text in values else unquote(text) for text in texts]
    return rows.set_column(
        rows.schema.get_field_index("part"), "part", pa.array(meant, pa.string())
    )


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
                if not player.hudi.is_running:
                    raise
                # Hudi's own affair; what it leaves behind must be read alike all the same.
                look.refusal = f"Apache Hudi refused step {player.done}, {step}: {refusal}"
                break
            if before < player.done == history.midway:
                look.all()
        if player.done:
            look.all()
    except Exception as failure:
        told = [f"seed {history.seed}, kept in {player.path}", str(history.shape), *player.trace]
        if isinstance(failure, RowsDiffer):
            notes = getattr(failure, "__notes__", [])
            raise pytest.fail.Exception(
                "\n".join([str(failure), *notes, *told]), pytrace=False
            ) from None
        failure.add_note("\n".join(told))
        raise
    return look


@pytest.mark.interop
@pytest.mark.parametrize("seed", range(FIRST, FIRST + AMOUNT))
def test_lentic_reads_the_rows_that_hudi_reads_after_any_history(
    seed: int, apache_hudi: ApacheHudi, tally: Tally
) -> None:
    if EQUAL and tally.equal >= EQUAL:
        pytest.skip(f"{EQUAL} histories were equal already")
    history = make_history(seed)
    if STEPS:
        history = history.only(STEPS)
    # Not a folder of pytest's, which the next runs would clear away with the evidence in it.
    folder = Path(tempfile.mkdtemp(prefix=f"lentic-history-{seed}-"))
    apache_hudi.ensure_running()
    player = Player(apache_hudi, folder / "table", history.shape)
    tally.differing += 1
    try:
        look = _play(history, player)
    except EngineFailed:
        apache_hudi.end()  # its state is unknown: the next history starts anew
        raise
    tally.differing -= 1
    shutil.rmtree(folder)
    if look.refusal:
        apache_hudi.end()
        tally.refused += 1
        pytest.xfail(look.refusal)
    assert STEPS or player.done >= LENGTH_MIN
    tally.equal += 1
    tally.operations += player.done


@pytest.mark.interop
@pytest.mark.skipif(not EQUAL, reason="no number of equal histories was asked for")
def test_as_many_histories_as_asked_for_were_equal(apache_hudi: ApacheHudi, tally: Tally) -> None:
    assert tally.equal >= EQUAL, str(tally)


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
