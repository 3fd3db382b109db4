"""Which column groups a table may have, and where partial updates are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lentic.api import ensure_agrees
from lentic.config.groups import REGISTRY, TableOptions
from lentic.config.options import resolve
from lentic.errors import ConfigError, Corrupt, SchemaMismatch, UnsupportedFormat
from lentic.format.table_config import decode_table_config, encode_table_config
from tests.unit.partial_tables import GROUPS, make, row, some
from tests.unit.verbs import COW


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("a_ts", "ordering_column:column"),
        ("a_ts:", "ordering_column:column"),
        ("a_ts:a;b_ts:a", "column a occurs twice"),
        ("a_ts:nope", "names column nope"),
        ("a_ts:id", "lentic.partial.groups=a_ts:id contradicts key=id"),
        ("a_ts:a;b_ts:day", "contradicts partition_by=day"),
        ("x:a", "contradicts hoodie.table.ordering.fields=x"),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups: str, words: str) -> None:
    with pytest.raises((ConfigError, SchemaMismatch)) as refused:
        make(lentic__partial__groups=groups, ordering="x")
    assert words in str(refused.value)


def test_a_group_is_ordered_by_plain_values() -> None:
    nested = pa.schema(
        [("id", pa.string()), ("day", pa.string()), ("l", pa.list_(pa.int64())), ("v", pa.int64())]
    )
    with pytest.raises(SchemaMismatch, match="orders by column l"):
        make(schema=nested, lentic__partial__groups="l:v")


def test_a_global_index_is_refused_where_columns_would_stay_behind() -> None:
    for groups in (GROUPS, ""):
        table = make(
            f"{COW} None", lentic__partial__groups=groups, hoodie__index__type="GLOBAL_SIMPLE"
        )
        with pytest.raises(ConfigError, match="leave the columns behind"):
            table.upsert(some(row("k", x=1)), partial=True)


def test_a_table_whose_logs_mean_something_else_is_refused() -> None:
    table = make()
    table.upsert(some(row("k", x=1)))
    mode = "hoodie.table.partial.update.mode"
    table.config.extra[mode] = "IGNORE_DEFAULTS"  # type: ignore[index]
    for act in (table.read, lambda: table.upsert(some(row("k", x=1)), partial=True), table.compact):
        with pytest.raises((ConfigError, UnsupportedFormat), match=mode):
            act()


def test_the_table_keeps_its_groups_and_nobody_may_disagree() -> None:
    table = make()
    kept = encode_table_config(table.config)
    assert decode_table_config(kept, "w").column_groups == table.config.column_groups
    with pytest.raises(Corrupt, match=r"lentic\.partial\.groups=a_ts;.* has no meaning"):
        decode_table_config(kept.replace(b"a_ts\\:a,aa;", b"a_ts;"), "w")
    settings_of = resolve({"lentic.partial.groups": "a_ts:a"}, REGISTRY)
    with pytest.raises(ConfigError, match="contradicts the table's own=a_ts:a,aa;b_ts:b;c_ts:c"):
        ensure_agrees(table.config, TableOptions.parse(settings_of), settings_of)
