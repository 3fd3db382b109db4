"""Tables on any storage, world and lock: how simulations open the real engine."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lentic.api import create_table, load_table_config, plan_table
from lentic.config.groups import REGISTRY, TableOptions, WriteOptions
from lentic.config.options import resolve
from lentic.config.services import ServiceOptions
from lentic.config.sharing import LockOptions, SharingOptions
from lentic.coordination.heartbeat import Watch
from lentic.coordination.lock import LockProvider
from lentic.engine import Engine, LocalEngine
from lentic.storage.base import Storage
from lentic.table import Table
from lentic.txn.modes import ensure_mode_fits
from lentic.txn.transaction import OpenTable
from lentic.world import World


def create_on(storage: Storage, schema: pa.Schema, options: Mapping[str, object]) -> None:
    """Create a table on `storage`; everything about it is said by `hoodie.*` options."""
    chosen = TableOptions.parse(resolve(options, REGISTRY))
    create_table(storage, plan_table(storage.root, schema, chosen))


def open_on(
    storage: Storage,
    world: World,
    lock: LockProvider,
    options: Mapping[str, object] | None = None,
    engine: Engine | None = None,
) -> Table:
    """Open the table on `storage`; its work runs in the calling thread, as simulations need it,
    unless they bring an engine of their own."""
    settings = resolve(options or {}, REGISTRY)
    config, sharing = load_table_config(storage), SharingOptions.parse(settings)
    ensure_mode_fits(config, sharing.mode)
    ttl_ms = sharing.heartbeat_interval_ms * sharing.heartbeat_misses
    opened = OpenTable(
        storage=storage,
        config=config,
        lock=lock,
        world=world,
        write_options=WriteOptions.parse(settings),
        lock_options=LockOptions.parse(settings),
        sharing=sharing,
        services=ServiceOptions.parse(settings),
        watch=Watch(world.clock, ttl_ms),
    )
    return Table(opened, engine or LocalEngine(threads=1))
