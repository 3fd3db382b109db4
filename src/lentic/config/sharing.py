"""Options of tables that several jobs share: how writers meet, which lock, signs of life."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from lentic.config.options import (
    Option,
    Settings,
    contradiction,
    parse_bool,
    parse_choice,
    parse_whole,
)
from lentic.config.zookeeper import ZOOKEEPER


class ConcurrencyMode(StrEnum):
    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"

    @property
    def is_shared(self) -> bool:
        """Whether others may be writing at the same time."""
        return self is not ConcurrencyMode.SINGLE_WRITER


class FailedWrites(StrEnum):
    """When writes that did not finish are rolled back."""

    AUTO = ""
    EAGER = "EAGER"
    LAZY = "LAZY"


class LockKind(StrEnum):
    """Which lock guards the table. The class names are what Hudi users write for the same lock."""

    AUTO = "auto"
    FILE = "file"
    STORAGE = "storage"
    IN_PROCESS = "in_process"
    ZOOKEEPER = "zookeeper"
    HUDI_STORAGE = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"
    HUDI_IN_PROCESS = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    HUDI_ZOOKEEPER = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"

    @property
    def plain(self) -> LockKind:
        """The same lock by our own name."""
        return _PLAIN.get(self, self)


_PLAIN = {
    LockKind.HUDI_STORAGE: LockKind.STORAGE,
    LockKind.HUDI_IN_PROCESS: LockKind.IN_PROCESS,
    LockKind.HUDI_ZOOKEEPER: LockKind.ZOOKEEPER,
}

CONCURRENCY_MODE = Option(
    "hoodie.write.concurrency.mode",
    parse_choice(ConcurrencyMode),
    ConcurrencyMode.SINGLE_WRITER,
    "How writers meet. SINGLE_WRITER: one at a time; a new writer rolls a dead one's work back. "
    "OPTIMISTIC_CONCURRENCY_CONTROL: any number; of two that touch the same file groups the later "
    "one starts over. NON_BLOCKING_CONCURRENCY_CONTROL: any number, and on MERGE_ON_READ tables "
    "with buckets and ordering fields none aborts.",
)
FAILED_WRITES = Option(
    "hoodie.clean.failed.writes.policy",
    parse_choice(FailedWrites),
    FailedWrites.AUTO,
    "When writes that did not finish are rolled back. EAGER: when the next write begins, but for "
    "those that give signs of life all the same. LAZY: when their heartbeat has expired. Unless "
    "told, EAGER with a single writer and LAZY with several.",
    aliases=("hoodie.cleaner.policy.failed.writes",),
)
CONFLICT_RETRIES = Option(
    "hoodie.write.num.retries.on.conflict.failures",
    parse_whole(0, 1_000),
    0,
    "How often a write that lost to another one is begun anew by itself.",
)
EARLY_CONFLICTS = Option(
    "hoodie.write.concurrency.early.conflict.detection.enable",
    parse_bool,
    False,
    "With OPTIMISTIC_CONCURRENCY_CONTROL, give up before writing into a file group that another "
    "living writer is writing into, not only at the commit.",
)
HEARTBEAT_INTERVAL_MS = Option(
    "hoodie.client.heartbeat.interval_in_ms",
    parse_whole(100, 3_600_000),
    60_000,
    "How often a sign of life is due.",
)
HEARTBEAT_MISSES = Option(
    "hoodie.client.heartbeat.tolerable.misses",
    parse_whole(1, 1_000),
    2,
    "How many signs of life may be missing before others give a writer up.",
)
LOCK_KIND = Option(
    "hoodie.write.lock.provider",
    parse_choice(LockKind),
    LockKind.AUTO,
    "auto: a lock file on local disk, a lock object in an object store. storage: the lock object "
    "that Apache Hudi's storage-based provider uses. zookeeper: the lock that its ZooKeeper "
    "provider uses; needs pip install 'lentic[zookeeper]'. in_process: threads of this process "
    "only.",
)
LOCK_WAIT_MS = Option(
    "hoodie.write.lock.wait_time_ms",
    parse_whole(0, 3_600_000),
    60_000,
    "How long to wait for the table lock.",
)
LOCK_LEASE_S = Option(
    "hoodie.write.lock.storage.validity.timeout.secs",
    parse_whole(1, 3_600),
    30,
    "How long the lock of a writer that died is kept from others. Losing it while alive is safe: "
    "the write starts over.",
)
CLOCK_SKEW_MS = Option(
    "hoodie.time.generator.max_expected_clock_skew_ms",
    parse_whole(0, 86_400_000),
    200,
    "How far this machine's clock may lie behind the last time issued for the table.",
)


@dataclass(frozen=True, slots=True)
class SharingOptions:
    """How writers of one table meet."""

    mode: ConcurrencyMode
    failed_writes: FailedWrites
    conflict_retries: int
    early_conflicts: bool
    heartbeat_interval_ms: int
    heartbeat_misses: int
    is_alone_by_word: bool
    """Whether the user has said in so many words that there is no other writer."""

    @classmethod
    def parse(cls, settings: Settings) -> Self:
        """The options, checked against each other; `ConfigError` where they contradict."""
        mode, policy = CONCURRENCY_MODE.of(settings), FAILED_WRITES.of(settings)
        if mode.is_shared and policy is FailedWrites.EAGER:
            raise contradiction(CONCURRENCY_MODE.key, mode, FAILED_WRITES.key, policy)
        if mode.is_shared and LOCK_KIND.of(settings).plain is LockKind.IN_PROCESS:
            raise contradiction(CONCURRENCY_MODE.key, mode, LOCK_KIND.key, LockKind.IN_PROCESS)
        if not policy:
            policy = FailedWrites.LAZY if mode.is_shared else FailedWrites.EAGER
        return cls(
            mode=mode,
            failed_writes=policy,
            conflict_retries=CONFLICT_RETRIES.of(settings),
            early_conflicts=EARLY_CONFLICTS.of(settings),
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS.of(settings),
            heartbeat_misses=HEARTBEAT_MISSES.of(settings),
            is_alone_by_word=CONCURRENCY_MODE.key in settings and not mode.is_shared,
        )


@dataclass(frozen=True, slots=True)
class LockOptions:
    """Who may change the timeline, and what time it is."""

    kind: LockKind
    wait_ms: int
    lease_ms: int
    clock_skew_ms: int

    @classmethod
    def parse(cls, settings: Settings) -> Self:
        return cls(
            kind=LOCK_KIND.of(settings).plain,
            wait_ms=LOCK_WAIT_MS.of(settings),
            lease_ms=LOCK_LEASE_S.of(settings) * 1000,
            clock_skew_ms=CLOCK_SKEW_MS.of(settings),
        )


SHARING: tuple[Option[Any], ...] = (
    CONCURRENCY_MODE,
    FAILED_WRITES,
    CONFLICT_RETRIES,
    EARLY_CONFLICTS,
    HEARTBEAT_INTERVAL_MS,
    HEARTBEAT_MISSES,
    LOCK_KIND,
    LOCK_WAIT_MS,
    LOCK_LEASE_S,
    *ZOOKEEPER,
    CLOCK_SKEW_MS,
)
