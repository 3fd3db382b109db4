"""Which ways of sharing a table fit it. Pure."""

from __future__ import annotations

from lentic.config.options import contradiction
from lentic.config.sharing import CONCURRENCY_MODE, ConcurrencyMode
from lentic.format.table_config import MergeMode, TableConfig, TableType


def ensure_mode_fits(config: TableConfig, mode: ConcurrencyMode) -> None:
    """`ConfigError`, before the first byte, where writers of `mode` would harm each other.

    Writers that never wait for each other leave conflicts to whoever merges (RFC-66, "The
    Precondition"): into logs, into file groups that the key alone decides, and by an order that
    does not depend on who was first (R17).
    """
    if mode is not ConcurrencyMode.NON_BLOCKING:
        return
    if config.table_type is not TableType.MERGE_ON_READ:
        raise contradiction(CONCURRENCY_MODE.key, mode, "hoodie.table.type", config.table_type)
    if config.buckets is None:
        raise contradiction(CONCURRENCY_MODE.key, mode, "hoodie.bucket.index.num.buckets", "(none)")
    if not config.ordering_fields:
        raise contradiction(CONCURRENCY_MODE.key, mode, "hoodie.table.ordering.fields", "(none)")
    if config.merge_mode is not MergeMode.EVENT_TIME_ORDERING:
        raise contradiction(
            CONCURRENCY_MODE.key, mode, "hoodie.record.merge.mode", config.merge_mode
        )
