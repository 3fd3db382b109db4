"""The five meta columns that open every stored record, and schemas with and without them.

All five are nullable strings, always first and always in the order of `META_FIELDS`:
when the record was last written, a number unique in its table, its key, the folder it lies in,
and the base file (in a log block: the file group) that holds it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lentic.errors import SchemaMismatch

COMMIT_TIME: Final = "_hoodie_commit_time"
COMMIT_SEQNO: Final = "_hoodie_commit_seqno"
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
FILE_NAME: Final = "_hoodie_file_name"

META_FIELDS: Final[tuple[str, ...]] = (
    COMMIT_TIME,
    COMMIT_SEQNO,
    RECORD_KEY,
    PARTITION_PATH,
    FILE_NAME,
)

META_SCHEMA: Final[pa.Schema] = pa.schema([pa.field(name, pa.string()) for name in META_FIELDS])


def with_meta_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` with the five meta columns in front, however many of them it had.

    A meta column of another type raises `SchemaMismatch`: a column of the user's cannot have
    one of these names.
    """
    for name in META_FIELDS:
        for index in schema.get_all_field_indices(name):
            if schema.field(index).type != pa.string():
                raise SchemaMismatch(
                    f"Column {name} is {schema.field(index).type}, but this name is kept for a"
                    " meta column of type string.",
                    safe="Nothing was written.",
                    next_step=f"Rename the column {name}.",
                )
    data = without_meta(schema)
    return pa.schema([*META_SCHEMA, *data], metadata=schema.metadata)


def without_meta(schema: pa.Schema) -> pa.Schema:
    """`schema` without the meta columns; the order of the others is kept."""
    rest = [field for field in schema if field.name not in META_FIELDS]
    return pa.schema(rest, metadata=schema.metadata)
