"""Where rows go. A placement sends every row to a file group; engines move the rows there.

A slot names the place within its partition: the bucket, or the file group itself. Whatever a
placement decides depends on the row alone (and on what the driver decided before the run), never on
the attempt or the order of rows, so that a task that runs twice gets the same rows (R8).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lentic.errors import ConfigError
from lentic.format.keys import is_composite, record_keys
from lentic.format.partition_paths import partition_paths
from lentic.format.table_config import TableConfig

DELETE_FLAG = "__lentic_delete"
"""A column of this name in rows on their way to a handle: true deletes the row's key for good."""


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The rows of one file group; `rows` has the columns the handle was given."""

    partition: str
    slot: str
    keys: pa.Array
    rows: pa.Table


class Placement(Protocol):
    """A picklable value; its methods are pure."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All that `route` looks at."""

    def route(self, rows: pa.RecordBatch) -> pa.Array:
        """One number per row, equal for rows of one file group; `InvalidRecord` for a bad row."""

    def split(self, rows: pa.Table) -> Iterator[GroupRows]:
        """`rows` group by group; within a group they keep their order."""

    def slot_of(self, file_id: str) -> str | None:
        """The slot that an existing file group fills; None if it fits none."""

    def new_file_id(self, slot: str, ended: Set[str] = frozenset()) -> str:
        """What the file group of a slot is called if there is none yet; none of `ended`."""


@dataclass(frozen=True, slots=True)
class KeyRules:
    """How rows of one table get their keys and partitions."""

    key_fields: tuple[str, ...]
    composite: bool
    partition_fields: tuple[str, ...]
    hive_style: bool
    url_encode: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.key_fields, *self.partition_fields)))

    def keys(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """The key of every row; `InvalidRecord` if one has none."""
        return record_keys(rows, self.key_fields, composite=self.composite)

    def partitions(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """The partition of every row; `InvalidRecord` if a value is no safe folder name."""
        return partition_paths(
            rows, self.partition_fields, hive_style=self.hive_style, url_encode=self.url_encode
        )


def key_rules(config: TableConfig) -> KeyRules:
    """The rules of a table; `ConfigError` if its keys are made up by whoever writes them."""
    if not config.key_fields:
        raise ConfigError(
            f"Table {config.name} has no key columns; its keys are made up when rows are written.",
            safe="nothing was written; reading works",
            next_step="write to it with Apache Hudi",
        )
    return KeyRules(
        key_fields=config.key_fields,
        composite=is_composite(config.keygen.value, config.key_fields),
        partition_fields=config.partition_fields,
        hive_style=config.hive_style,
        url_encode=config.url_encode,
    )


def group_rows(
    rows: pa.Table, keys: pa.Array, partitions: pa.Array, slots: pa.Array
) -> Iterator[GroupRows]:
    """`rows` cut by partition and slot."""
    if not rows.num_rows:
        return
    partition_codes, slot_codes = partitions.dictionary_encode(), slots.dictionary_encode()
    width = len(slot_codes.dictionary)
    number = _codes(partition_codes) * width + _codes(slot_codes)
    order = np.argsort(number, kind="stable")
    _, starts = np.unique(number[order], return_index=True)
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        at = pa.array(order[start:stop])
        partition, slot = divmod(int(number[order[start]]), width)
        yield GroupRows(
            partition_codes.dictionary[partition].as_py(),
            slot_codes.dictionary[slot].as_py(),
            pc.take(keys, at),
            rows.take(at),
        )


def _codes(encoded: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    codes: npt.NDArray[np.int64] = encoded.indices.to_numpy().astype(np.int64)
    return codes
