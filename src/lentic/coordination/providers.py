"""Which lock a table gets: from its options and from where it lies."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lentic.config.options import contradiction
from lentic.config.sharing import CONCURRENCY_MODE, LOCK_KIND, LockKind, LockOptions, SharingOptions
from lentic.coordination.lock import Held, LockProvider
from lentic.coordination.lock_file import FileLock
from lentic.coordination.lock_process import ProcessLock
from lentic.coordination.lock_storage import StorageLock
from lentic.errors import UnsupportedFormat
from lentic.format import layout
from lentic.storage.base import ConditionalStorage, Storage
from lentic.storage.local import LocalStorage
from lentic.storage.object_store import ObjectStorage
from lentic.storage.probe import keeps_conditions
from lentic.world import World

_log = logging.getLogger(__name__)


def choose_lock(
    storage: Storage, world: World, options: LockOptions, sharing: SharingOptions
) -> LockProvider:
    """The lock that `options` ask for; `ConfigError` where it cannot guard this storage.

    Not the one on ZooKeeper, which needs a package that not everybody has: see `lentic.api`.
    """
    assert options.kind is not LockKind.ZOOKEEPER
    if isinstance(storage, ObjectStorage):
        alone = ProcessLock(storage.root, options.wait_ms)
        return ProbedLock(_on_objects(storage, world, options), alone, storage, sharing)
    if options.kind is LockKind.IN_PROCESS:
        return ProcessLock(storage.root, options.wait_ms)
    if options.kind is LockKind.STORAGE or not isinstance(storage, LocalStorage):
        raise contradiction(LOCK_KIND.key, options.kind, "the table path", storage.root)
    return FileLock(f"{storage.root}/{layout.LOCK}", world, options.wait_ms)


def probe_first(lock: LockProvider, storage: Storage, sharing: SharingOptions) -> LockProvider:
    """The same lock, taken only once it is known that the storage keeps conditions."""
    if isinstance(storage, ObjectStorage):
        return ProbedLock(lock, lock, storage, sharing)
    return lock


def _on_objects(storage: ObjectStorage, world: World, options: LockOptions) -> LockProvider:
    if options.kind is LockKind.FILE:
        raise contradiction(LOCK_KIND.key, options.kind, "the table path", storage.root)
    if options.kind is LockKind.IN_PROCESS:
        return ProcessLock(storage.root, options.wait_ms)
    return StorageLock(storage, world, options.wait_ms, options.lease_ms)


@dataclass(frozen=True, slots=True)
class ProbedLock:
    """A lock on an object store that is first asked whether it keeps conditions (R19).

    `alone` is for stores that do not, where the user has promised to be the only writer.
    """

    inner: LockProvider
    alone: LockProvider
    storage: ConditionalStorage
    sharing: SharingOptions

    @contextmanager
    def hold(self) -> Iterator[Held]:
        with self._chosen().hold() as held:
            yield held

    def _chosen(self) -> LockProvider:
        if keeps_conditions(self.storage, layout.LOCKS):
            return self.inner
        if self.sharing.is_alone_by_word:
            _log.warning(
                "%s ignores conditional requests; only the promise of a single writer keeps the "
                "table whole",
                self.storage.root,
            )
            return self.alone
        raise UnsupportedFormat(
            "This store accepts conditional requests and ignores their condition, so two writers "
            "could overwrite each other.",
            where=self.storage.root,
            safe="nothing was written; reading works",
            next_step="use a store with If-None-Match and If-Match; or, if this is the only "
            f"writer there will ever be, say so: {CONCURRENCY_MODE.key}=SINGLE_WRITER",
        )
