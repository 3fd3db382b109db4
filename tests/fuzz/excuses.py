"""Damage that nobody can notice, by class: the format keeps no checksum there.

Each class lists the very fields in which a flipped bit may change an answer without an error.
A wrong answer after damage anywhere else is a failure. How often each class came up is printed.
"""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "FOOTER_HAS_NO_CHECKSUM": (
        "Parquet checks pages and not the footer. Another legal column name reads as a column that "
        "is absent, another scale or repetition as another type; other bounds hide row groups."
    ),
    "ARROW_ABORTS": (
        "Arrow's own reader ends the process on some damaged types in a footer, where no error can "
        "be caught; nothing is read and nothing is written."
    ),
    "BLOCK_HEADER_HAS_NO_CHECKSUM": (
        "The text of log block headers: a schema with another legal column name, another instant."
    ),
    "AVRO_RECORDS_HAVE_NO_CHECKSUM": "Avro data, change and delete blocks hold bare values.",
    "TIMELINE_HAS_NO_CHECKSUM": (
        "Avro containers and properties hold bare values: a flipped bit gives another legal one."
    ),
    "FILE_OF_ANOTHER_INSTANT": (
        "Plans, and commits that wrote no file, do not say which instant they belong to."
    ),
}

_FOOTER = frozenset(
    {
        "footer.schema.name",
        "footer.schema.name#",
        "footer.schema.repetition_type",
        "footer.schema.repetition_type#",
        "footer.schema.logical_type.5.1",  # the scale of decimals
        "footer.row_groups.columns.meta_data.statistics.min_value",
        "footer.row_groups.columns.meta_data.statistics.max_value",
    }
)
_BLOCK_HEADERS = frozenset(
    {
        "header SCHEMA",
        "header INSTANT_TIME",
        "header TARGET_INSTANT_TIME",
        "header COMPACTED_BLOCK_TIMES",
    }
)
_AVRO = frozenset({"AVRO record", "CDC record", "deletes"})


_ABORTS = frozenset(
    {
        "footer.row_groups.columns.meta_data.type",
        "footer.row_groups.columns.meta_data.type#",
        "footer.row_groups.columns.meta_data.size_statistics",
        "footer.row_groups.columns.meta_data.size_statistics#",
        "footer.schema.type",
        "footer.schema.type#",
    }
)


def excuse_of(region: str) -> str:
    """The class that a flipped bit in this part of a file belongs to, or "" for none."""
    if region in _ABORTS:
        return "ARROW_ABORTS"
    if region in _FOOTER:
        return "FOOTER_HAS_NO_CHECKSUM"
    if region in _BLOCK_HEADERS:
        return "BLOCK_HEADER_HAS_NO_CHECKSUM"
    if region in _AVRO:
        return "AVRO_RECORDS_HAVE_NO_CHECKSUM"
    return ""
