"""Which columns the rows of a log block carry.

A partial block (IS_PARTIAL) holds no others. Engines that read it fill the rest from an older
version of the record; Apache Hudi 1.2 fails where there is none. So a block of new records holds
every column, and a property of its Avro schema says which of them the rows carry. Engines that do
not know the property take the others for null, which is what they are in a new record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lentic.format.log_block import Header

_PROPERTY = "lentic.carried"


def mark_carried(avro_schema: str, names: Sequence[str]) -> str:
    """The schema of a block of whole rows that carry only the columns `names`."""
    return json.dumps({**json.loads(avro_schema), _PROPERTY: list(names)})


def parse_carried(headers: Mapping[Header, str], held: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that a block's rows carry, of those it holds; None if they are whole rows."""
    if headers.get(Header.IS_PARTIAL) == "true":
        return tuple(held)
    schema = headers.get(Header.SCHEMA, "")
    if _PROPERTY not in schema:
        return None
    try:
        value: Any = json.loads(schema).get(_PROPERTY)
    except (ValueError, AttributeError):
        return None  # whoever needs the schema will say what is wrong with it
    return tuple(name for name in held if name in value) if isinstance(value, list) else None
