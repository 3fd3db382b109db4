"""The lock that is an object, on a store that fails, with holders that fall asleep.

Each holder decides to make one file. Whatever it is told must be true for ever, and nothing that
was decided in an earlier epoch may appear once a later one has begun.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from lentic.coordination.lock import Intent
from lentic.coordination.lock_storage import StorageLock
from lentic.errors import Conflict, LockTimeout, OutcomeUnknown, StorageError
from lentic.format import layout
from lentic.storage.object_store import ObjectStorage
from lentic.world import real_world
from tests.storage.s3_server import BUCKET
from tests.writers.proxy import Plan, running_proxy
from tests.writers.test_proxy import upstream_port

SOAK_S = float(os.environ.get("LENTIC_SOAK_S", "0"))
SEED = int(os.environ.get("LENTIC_SOAK_SEED", "0"))
PLAY_S = SOAK_S or 4.0
WORKERS = 3
LEASE_MS = 1000
NAP_S = 1.6


class Told(StrEnum):
    """What a holder was told of its decision."""

    DECIDED = "decided"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Record:
    """What the holders did: per epoch the file it decided on, what it was told, and which files
    of earlier epochs were there when it began."""

    paths: dict[int, str] = field(default_factory=dict)
    told: dict[int, Told] = field(default_factory=dict)
    present: dict[int, set[str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    busy: int = 0


def hold_once(storage: ObjectStorage, record: Record, chance: random.Random, name: str) -> None:
    """Take the lock, perhaps sleep beyond the lease, and decide to make a file."""
    path = f"{layout.TIMELINE}/{name}.commit.requested"
    with StorageLock(storage, real_world(), 20_000, LEASE_MS).hold() as held:
        epoch = held.epoch
        assert epoch not in record.paths, f"epoch {epoch} was given twice"
        record.paths[epoch] = path
        record.told[epoch] = Told.UNKNOWN  # should this fail before it decides: it did not
        try:
            record.present[epoch] = {file.path for file in storage.list_files(layout.TIMELINE)}
        except StorageError:
            record.told[epoch] = Told.LOST
            return
        if chance.random() < 0.2:
            time.sleep(NAP_S)
        try:
            held.publish(Intent(path, f"epoch {epoch}".encode()))
        except Conflict:
            record.told[epoch] = Told.LOST
            return
        except OutcomeUnknown:
            return
        record.told[epoch] = Told.DECIDED
        if chance.random() < 0.2:
            return  # died before it was carried out: the next holder has to
        storage.put_if_absent(path, f"epoch {epoch}".encode())
        held.settle()


def work(storage: ObjectStorage, record: Record, worker: int) -> None:
    chance = random.Random(f"{SEED}/{worker}")
    end = time.monotonic() + PLAY_S
    number = 0
    while time.monotonic() < end:
        number += 1
        try:
            hold_once(storage, record, chance, f"2024{worker:02d}{number:011d}")
        except (LockTimeout, StorageError):
            record.busy += 1
        except BaseException as error:
            record.errors.append(repr(error))
            raise


def test_what_holders_are_told_stays_true_on_a_store_that_fails(
    s3_options: dict[str, str], tell: Callable[[str], None]
) -> None:
    with running_proxy(upstream_port(s3_options), Plan(seed=SEED, one_in=20)) as proxy:
        led = s3_options | {"endpoint": proxy.endpoint, "timeout": "5s"}
        storage = ObjectStorage(f"s3://{BUCKET}/lock-{SEED}", tuple(sorted(led.items())))
        record = Record()
        threads = [
            threading.Thread(target=work, args=(storage, record, number))
            for number in range(WORKERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        proxy.is_armed = False
        with StorageLock(storage, real_world(), 60_000, LEASE_MS).hold():
            pass  # which carries out what the last one decided
        there = {file.path for file in storage.list_files(layout.TIMELINE)}
    assert not record.errors
    assert len(record.told) > WORKERS
    for epoch, told in sorted(record.told.items()):
        if told is not Told.UNKNOWN:
            is_there = record.paths[epoch] in there
            assert is_there == (told is Told.DECIDED), f"epoch {epoch} was told: {told}"
    for epoch, present in record.present.items():
        earlier = {path for other, path in record.paths.items() if other < epoch}
        assert present & earlier == there & earlier, f"something changed before epoch {epoch}"
    counts = {told: list(record.told.values()).count(told) for told in Told}
    spoilt = proxy.counts.total()
    tell(f"{counts}, {record.busy} not taken, {proxy.requests} requests, {spoilt} spoilt")
