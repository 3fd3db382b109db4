"""Which partitions and buckets can hold rows that pass a filter. Pure.

Both work from the finite sets of values that a filter allows for some columns (`a = 1`, `a in (1,
2)`), by making the very partition path or key hash that a writer would have made.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pyarrow as pa

from lentic.errors import InvalidRecord
from lentic.format.bucket import bucket_ids, parse_bucket
from lentic.format.keys import is_composite, record_keys
from lentic.format.partition_paths import partition_paths
from lentic.format.table_config import KeyGenerator, TableConfig
from lentic.query.predicate import keys_equal
from lentic.query.predicate_values import Predicate
from lentic.view.files import FileGroup

_COMBINATIONS_MAX = 1_000
_PLAIN_KEYGENS = frozenset({KeyGenerator.SIMPLE, KeyGenerator.COMPLEX, KeyGenerator.NON_PARTITION})


def prune_partitions(
    predicate: Predicate | None, config: TableConfig, schema: pa.Schema
) -> frozenset[str] | None:
    """The partitions that can hold matching rows, or None if the filter does not say."""
    if not config.partition_fields or config.keygen not in _PLAIN_KEYGENS:
        return None
    rows = _allowed_rows(predicate, config.partition_fields, schema)
    if rows is None:
        return None
    try:
        paths = partition_paths(
            rows,
            config.partition_fields,
            hive_style=config.hive_style,
            url_encode=config.url_encode,
        )
    except InvalidRecord:
        return None
    return frozenset(paths.to_pylist())


def prune_buckets(
    groups: tuple[FileGroup, ...],
    predicate: Predicate | None,
    config: TableConfig,
    schema: pa.Schema,
) -> tuple[FileGroup, ...]:
    """The groups that can hold matching rows, judged by the bucket of their key."""
    if config.buckets is None or not config.key_fields:
        return groups
    rows = _allowed_rows(predicate, config.key_fields, schema)
    if rows is None:
        return groups
    composite = is_composite(config.keygen.value, config.key_fields)
    try:
        keys = record_keys(rows, config.key_fields, composite=composite)
    except InvalidRecord:
        return groups
    buckets = set(bucket_ids(keys, config.buckets, hash_fields=config.key_fields).tolist())
    return tuple(group for group in groups if parse_bucket(group.id.file_id) in (None, *buckets))


def _allowed_rows(
    predicate: Predicate | None, fields: Iterable[str], schema: pa.Schema
) -> pa.Table | None:
    """One row per combination of values that the filter allows for `fields`."""
    if predicate is None:
        return None
    names = tuple(fields)
    allowed = []
    for name in names:
        values = keys_equal(predicate, name) if name in schema.names else None
        if values is None:
            return None
        allowed.append(sorted(values, key=repr))
    combinations = list(product(*allowed))
    if not combinations or len(combinations) > _COMBINATIONS_MAX:
        return None
    columns = zip(*combinations, strict=True)
    try:
        arrays = [
            pa.array(list(column), schema.field(name).type)
            for name, column in zip(names, columns, strict=True)
        ]
    except pa.ArrowInvalid:  # a value the column cannot hold, so that nothing can be said
        return None
    return pa.table(arrays, names=list(names))
