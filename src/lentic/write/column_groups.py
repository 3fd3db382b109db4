"""Whether column groups make sense for a table, and rows for its column groups. Pure.

A partial update is written only if its result is the same whenever compactions run (ADR 0012). The
table keeps one ordering value per group and one for all columns outside, so what one value decides
comes whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lentic.config.column_groups import ColumnGroup, format_column_groups
from lentic.config.groups import ORDERING_FIELDS, PARTIAL_GROUPS, TableOptions
from lentic.config.options import contradiction
from lentic.errors import ConfigError, SchemaMismatch
from lentic.format.table_config import MergeMode, TableConfig
from lentic.write.fit import listed, mismatch


def ensure_sound_groups(schema: pa.Schema, chosen: TableOptions) -> None:
    """`ConfigError` or `SchemaMismatch` if the groups of a new table make no sense."""
    text = format_column_groups(chosen.column_groups)
    for name in (name for group in chosen.column_groups for name in group.names):
        if name not in schema.names:
            raise SchemaMismatch(
                f"{PARTIAL_GROUPS.key} names column {name}, which the schema does not have.",
                safe="nothing was written",
                next_step=f"choose among {', '.join(schema.names)}",
            )
        for key, fields in (
            ("key", chosen.key_fields),
            ("partition_by", chosen.partition_fields),
            (ORDERING_FIELDS.key, chosen.ordering_fields),
        ):
            if name in fields:
                raise contradiction(PARTIAL_GROUPS.key, text, key, fields)
    for group in chosen.column_groups:
        kind = schema.field(group.ordering).type
        if pa.types.is_nested(kind):
            raise SchemaMismatch(
                f"{PARTIAL_GROUPS.key} orders by column {group.ordering} of type {kind}.",
                safe="nothing was written",
                next_step="choose a column with plain values",
            )


def plan_partial(config: TableConfig, schema: pa.Schema, given: Sequence[str]) -> pa.Schema:
    """The columns of `schema` that rows with columns `given` set, the others left alone.

    Refuses rows whose effect would depend on when a compaction ran.
    """
    for group in config.column_groups:
        _ensure_whole(group, given)
    if config.merge_mode is MergeMode.EVENT_TIME_ORDERING:
        grouped = {name for group in config.column_groups for name in group.names}
        lacking = [name for name in schema.names if name not in grouped and name not in given]
        if lacking:
            raise ConfigError(
                f"The rows lack {listed(lacking)}, and all columns outside {PARTIAL_GROUPS.key} "
                f"share the table's ordering by {listed(list(config.ordering_fields))}: which "
                "values are newest would depend on when a compaction ran.",
                safe="nothing was written",
                next_step=f"add {lacking[0]}; or create the table with column groups, "
                f'options={{"{PARTIAL_GROUPS.key}": "ordering_column:{lacking[0]}"}}, or without '
                "ordering columns",
            )
    return pa.schema([field for field in schema if field.name in given])


def _ensure_whole(group: ColumnGroup, given: Sequence[str]) -> None:
    carried = [name for name in group.names if name in given]
    lacking = [name for name in group.names if name not in given]
    if carried and lacking:
        raise mismatch(
            f"The rows have {carried[0]} and lack {listed(lacking)} of the same column group, "
            f"whose columns {group.ordering} decides together.",
            f"add {lacking[0]}, or leave {listed(carried)} out,",
        )
