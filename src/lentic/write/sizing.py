"""How large files become: what a row takes, and which file groups are small."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lentic.errors import ConfigError
from lentic.format import layout
from lentic.format.bucket import parse_bucket
from lentic.format.names import Action
from lentic.storage.base import Storage
from lentic.timeline.reader import load_clustered_groups, load_commit_metadata
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import Group
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileGroup
from lentic.write.assign import Sizes, SmallFile

_COMMITS_ASKED = 5
_META_BYTES = 30
_TEXT_BYTES = 12
_BIT = 8


def choose_sizes(table: OpenTable, timeline: Timeline, schema: pa.Schema) -> Sizes:
    """The sizes that new keys are spread by."""
    options = table.write_options
    row = float(options.row_size) or _measured(table, timeline) or estimate_row(schema)
    return Sizes(options.file_size, options.small_file_size, row)


def _measured(table: OpenTable, timeline: Timeline) -> float | None:
    """Bytes per row of the base files of the newest commits that wrote any."""
    for instant in reversed(timeline.writes()[-_COMMITS_ASKED:]):
        stats = load_commit_metadata(table.storage, instant).stats
        base = [stat for stat in stats if stat.writes and not stat.is_log]
        if base:
            return sum(stat.size for stat in base) / sum(stat.writes for stat in base)
    return None


def estimate_row(schema: pa.Schema) -> float:
    """Bytes that a row of these types takes in Parquet, roughly: half of what it is in memory."""
    return _META_BYTES + sum(_width(field.type) for field in schema) / 2


def _width(kind: pa.DataType) -> float:
    if pa.types.is_struct(kind):
        return sum(_width(field.type) for field in kind)
    if pa.types.is_nested(kind):
        return float(4 * _TEXT_BYTES)
    try:
        return float(kind.bit_width) / _BIT
    except ValueError:  # no fixed width
        return float(_TEXT_BYTES)


def small_files(
    groups: Iterable[FileGroup], busy: frozenset[Group] = frozenset()
) -> dict[str, list[SmallFile]]:
    """By partition, the groups whose latest slice is a base file alone: one with logs would have to
    be merged first. New keys in one that is `busy` would spoil a clustering for nothing."""
    found: dict[str, list[SmallFile]] = {}
    for group in groups:
        if (group.id.partition, group.id.file_id) in busy:
            continue
        if group.latest.base and not group.latest.logs:
            file = SmallFile(group.id.file_id, group.latest.base.size)
            found.setdefault(group.id.partition, []).append(file)
    return found


def list_busy(storage: Storage, timeline: Timeline) -> frozenset[Group]:
    """The file groups that a pending clustering is going to end."""
    plans = timeline.pending(Action.CLUSTERING)
    return frozenset(group for plan in plans for group in load_clustered_groups(storage, plan))


def ensure_not_bucketed(groups: tuple[FileGroup, ...], name: str) -> None:
    """`ConfigError` if the file groups look like buckets: keys placed by a lookup instead of their
    hash would not be found by the table's other writers."""
    log_only = any(group.latest.base is None for group in groups)
    numbers = [parse_bucket(group.id.file_id) for group in groups]
    # Buckets are counted from zero; few random ids begin with four zeros, and never all of them.
    bucketed = bool(groups) and all(n is not None and n < 10_000 for n in numbers)
    if log_only or bucketed:
        raise ConfigError(
            f"Table {name} has file groups that were made by a bucket index, and its properties do "
            "not say how many buckets there are.",
            where=layout.PROPERTIES,
            safe="nothing was committed; reading works",
            next_step='if its writers use N buckets: lentic.open(path, options={"'
            'hoodie.bucket.index.num.buckets": N})',
        )
