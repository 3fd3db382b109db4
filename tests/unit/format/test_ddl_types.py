"""Single types as text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lentic.errors import ConfigError
from lentic.format.ddl import parse_type


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BIGINT", pa.int64()),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("timestamp_ntz", pa.timestamp("us")),
        ("array<int>", pa.list_(pa.field("element", pa.int32()))),
    ],
)
def test_a_type_is_read_as_it_is_behind_a_name(text: str, kind: pa.DataType) -> None:
    assert parse_type(text) == kind


@pytest.mark.parametrize("text", ["", "text", "int not null", "a int", "decimal(39)", "array<"])
def test_what_is_no_single_type_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_type(text)
