"""Many writers, one table: real processes, real kills, a ledger and a checker.

`make test` plays for seconds and without Spark; `make soak` for minutes (`LENTIC_SOAK_S` each),
with two Spark drivers, and has Apache Hudi read what they wrote.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import lentic
from tests.interop.readers import ApacheHudi
from tests.storage.s3_server import BUCKET
from tests.writers.checker import Kind, check
from tests.writers.conductor import Event, Freeze, Kill, Play, Role, perform
from tests.writers.judge import ensure_hudi_agrees, ensure_sound
from tests.writers.proxy import Plan, running_proxy
from tests.writers.test_proxy import upstream_port
from tests.writers.workload import KEY, ORDERING, PARTITION, SCHEMA

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the /proc of Linux")

SOAK_S = float(os.environ.get("LENTIC_SOAK_S", "0"))
SEED = int(os.environ.get("LENTIC_SOAK_SEED", "0"))
SHORT_S = 3.0
BEAT_MS, MISSES = 1000, 3
DEAD_S = BEAT_MS * MISSES / 1000
"""After so long without a beat a writer is taken for dead."""

Tell = Callable[[str], None]

HEARTBEAT = {
    "hoodie.client.heartbeat.interval_in_ms": str(BEAT_MS),
    "hoodie.client.heartbeat.tolerable.misses": str(MISSES),
}
MODE = "hoodie.write.concurrency.mode"
NBCC = HEARTBEAT | {MODE: "NON_BLOCKING_CONCURRENCY_CONTROL"}
OCC = HEARTBEAT | {MODE: "OPTIMISTIC_CONCURRENCY_CONTROL"}

COMPACTOR = Role("compactor", "compactor", pace_s=1.0)
READER = Role("reader", "reader", pace_s=0.2)
TWO = (Role("w0", "writer"), Role("w1", "writer"), COMPACTOR, READER)
TWO_ON_SPARK = (
    Role("w0", "writer", engine="spark"),
    Role("w1", "writer", engine="spark"),
    COMPACTOR,
    READER,
)
MANY = (
    *TWO,
    Role("w2", "writer"),
    Role("w3", "writer"),
    Role("c2", "compactor"),
    Role("r2", "reader"),
)


def make_play(
    folder: Path,
    options: dict[str, str],
    roles: tuple[Role, ...],
    duration_s: float,
    *events: Event,
    table: str = "",
) -> Play:
    """A new table, and what is to happen to it."""
    folder.mkdir(exist_ok=True)
    path = table or str(folder / "table")
    lentic.create(
        path,
        SCHEMA,
        key=KEY,
        partition_by=PARTITION,
        ordering=ORDERING,
        buckets=2,
        options=options,
    )
    ledgers = folder / "ledgers"
    ledgers.mkdir()
    return Play(
        path,
        ledgers,
        roles,
        duration_s,
        events,
        options,
        seed=SEED,
        patience_s=DEAD_S + 0.5 if events else 0,
        rereads=40 if SOAK_S else 8,
    )


def harm(duration_s: float, *, freeze: bool, kill: bool) -> list[Event]:
    """Something bad every 5 to 20 seconds, to a writer or to compaction, by the seed."""
    chance = random.Random(SEED)
    events: list[Event] = []
    at_s = chance.uniform(5, 15)
    while at_s < duration_s - 5:
        name = chance.choice(("w0", "w1", "w0", "w1", "compactor"))
        for_s = DEAD_S * chance.uniform(1.5, 3)
        is_freeze = freeze and (not kill or chance.random() < 0.5)
        events.append(Freeze(name, at_s, for_s) if is_freeze else Kill(name, at_s))
        at_s += for_s + chance.uniform(5, 20)
    return events if freeze or kill else []


# --- for seconds --------------------------------------------------------------------------------


def test_a_frozen_writer_and_a_killed_one_harm_nobody(tmp_path: Path, tell: Tell) -> None:
    events = Freeze("w0", 0.5, 1.5 * DEAD_S), Kill("w1", 1.0)
    play = make_play(tmp_path, NBCC, TWO, SHORT_S, *events)
    history = perform(play)
    assert len(history.freezes) == 1
    tell(ensure_sound(play, history, may_abort=False))


def test_writers_that_conflict_start_over_and_lose_nothing(tmp_path: Path, tell: Tell) -> None:
    play = make_play(tmp_path, OCC, TWO, SHORT_S)
    tell(ensure_sound(play, perform(play), may_abort=True))


def test_writers_share_a_table_on_a_store_that_fails(
    tmp_path: Path, s3_options: dict[str, str], tell: Tell
) -> None:
    tell(play_on_s3(tmp_path, s3_options, SHORT_S))


def play_on_s3(
    folder: Path, options: dict[str, str], duration_s: float, events: Sequence[Event] = ()
) -> str:
    """Two writers, compaction and a reader on an object store that spoils one request in 50. A
    frozen writer loses the lock, should it hold it."""
    with running_proxy(upstream_port(options), Plan(seed=SEED, one_in=50)) as proxy:
        led = {f"lentic.storage.{name}": value for name, value in options.items()}
        led |= {"lentic.storage.endpoint": proxy.endpoint, "lentic.storage.timeout": "5s"}
        led |= {"hoodie.write.lock.storage.validity.timeout.secs": "3"}
        proxy.is_armed = False
        url = f"s3://{BUCKET}/{folder.name}"
        play = make_play(folder, NBCC | led, TWO, duration_s, *events, table=url)
        proxy.is_armed = True
        history = perform(play, before_end=lambda: setattr(proxy, "is_armed", False))
        line = ensure_sound(play, history, may_abort=False, may_fail=True)
        faults = ", ".join(f"{count} × {fault}" for fault, count in sorted(proxy.counts.items()))
        return f"{line}; {proxy.requests} requests, spoilt: {faults}"


# --- for minutes --------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.skipif(not SOAK_S, reason="only with `make soak`")
class TestSoak:
    """The same for as long as one likes, with Spark."""

    @pytest.mark.spark
    @pytest.mark.parametrize("faults", ["none", "frozen", "killed"])
    def test_two_spark_drivers_and_compaction(
        self, faults: str, tmp_path: Path, apache_hudi: ApacheHudi, tell: Tell
    ) -> None:
        events = harm(SOAK_S, freeze=faults == "frozen", kill=faults == "killed")
        play = make_play(tmp_path, NBCC, TWO_ON_SPARK, SOAK_S, *events)
        history = perform(play)
        ensure_hudi_agrees(play, apache_hudi, with_ties=False)
        line = ensure_sound(play, history, may_abort=False)
        ensure_hudi_agrees(play, apache_hudi, with_ties=True)
        tell(f"{line}, and Apache Hudi agrees")

    @pytest.mark.parametrize("mode", ["NBCC", "OCC"])
    def test_four_writers_without_spark(self, mode: str, tmp_path: Path, tell: Tell) -> None:
        events = harm(SOAK_S, freeze=True, kill=True)
        play = make_play(tmp_path, {"NBCC": NBCC, "OCC": OCC}[mode], MANY, SOAK_S, *events)
        tell(ensure_sound(play, perform(play), may_abort=mode == "OCC"))

    def test_a_writer_that_breaks_the_rules_is_found_out(self, tmp_path: Path, tell: Tell) -> None:
        """Whoever says to be alone takes the work of others for a dead writer's."""
        alone = {MODE: "SINGLE_WRITER"}
        roles = (Role("w0", "writer"), Role("w1", "writer", options=alone), READER)
        play = make_play(tmp_path, NBCC, roles, min(SOAK_S, 20))
        found = Counter(violation.kind for violation in check(perform(play)))
        assert found[Kind.ABORTED], found
        tell(", ".join(f"{count} × {kind}" for kind, count in found.items()))

    @pytest.mark.parametrize("faults", ["none", "both"])
    def test_a_store_that_fails(
        self, faults: str, tmp_path: Path, s3_options: dict[str, str], tell: Tell
    ) -> None:
        events = harm(SOAK_S, freeze=faults == "both", kill=faults == "both")
        tell(play_on_s3(tmp_path, s3_options, SOAK_S, events))
