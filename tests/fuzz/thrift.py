"""Which field of a Parquet footer or page header each byte belongs to (Thrift compact protocol).

Only for bytes that are known to be whole: it trusts every length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)

_Shape = dict[int, Any]
"""Field number -> name, or (name, shape of the struct)."""

_STATISTICS: _Shape = {
    1: "max",
    2: "min",
    3: "null_count",
    4: "distinct_count",
    5: "max_value",
    6: "min_value",
    7: "is_max_value_exact",
    8: "is_min_value_exact",
}
_SCHEMA_ELEMENT: _Shape = {
    1: "type",
    2: "type_length",
    3: "repetition_type",
    4: "name",
    5: "num_children",
    6: "converted_type",
    7: "scale",
    8: "precision",
    9: "field_id",
    10: ("logical_type", {}),
}
_COLUMN: _Shape = {
    1: "type",
    2: "encodings",
    3: "path_in_schema",
    4: "codec",
    5: "num_values",
    6: "total_uncompressed_size",
    7: "total_compressed_size",
    8: ("key_value_metadata", {}),
    9: "data_page_offset",
    10: "index_page_offset",
    11: "dictionary_page_offset",
    12: ("statistics", _STATISTICS),
    13: ("encoding_stats", {}),
    14: "bloom_filter_offset",
    15: "bloom_filter_length",
    16: ("size_statistics", {}),
}
_CHUNK: _Shape = {1: "file_path", 2: "file_offset", 3: ("meta_data", _COLUMN)}
_ROW_GROUP: _Shape = {
    1: ("columns", _CHUNK),
    2: "total_byte_size",
    3: "num_rows",
    4: ("sorting_columns", {}),
    5: "file_offset",
    6: "total_compressed_size",
    7: "ordinal",
}
FOOTER: _Shape = {
    1: "version",
    2: ("schema", _SCHEMA_ELEMENT),
    3: "num_rows",
    4: ("row_groups", _ROW_GROUP),
    5: ("key_value_metadata", {}),
    6: "created_by",
    7: ("column_orders", {}),
}
PAGE_HEADER: _Shape = {
    1: "type",
    2: "uncompressed_page_size",
    3: "compressed_page_size",
    4: "crc",
    5: (
        "data",
        {
            1: "num_values",
            2: "encoding",
            3: "definition_level_encoding",
            4: "repetition_level_encoding",
            5: ("statistics", _STATISTICS),
        },
    ),
    7: ("dictionary", {1: "num_values", 2: "encoding", 3: "is_sorted"}),
    8: ("data_v2", {}),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Some bytes and what they are: a field's name with those it lies in, `#` for its header."""

    start: int
    end: int
    name: str


@dataclass(slots=True)
class Walk:
    """One pass over a struct; `values` holds its integers by name, of lists the last."""

    data: bytes
    at: int
    spans: list[Span] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)

    def struct(self, shape: _Shape, name: str) -> None:
        number = 0
        while True:
            start = self.at
            head = self._byte()
            if head == 0:
                self._add(start, f"{name}#")
                return
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            known = shape.get(number, str(number))
            inner = known[1] if isinstance(known, tuple) else {}
            label = f"{name}.{known[0] if isinstance(known, tuple) else known}"
            self._add(start, f"{label}#")
            self._value(head & 0xF, inner, label)

    def _value(self, kind: int, shape: _Shape, name: str, in_list: bool = False) -> None:
        start = self.at
        if kind == _STRUCT:
            self.struct(shape, name)
        elif kind in (_LIST, _SET):
            head = self._byte()
            count = self._varint() if head >> 4 == 0xF else head >> 4
            self._add(start, f"{name}#")
            for _ in range(count):
                self._value(head & 0xF, shape, name, in_list=True)
        elif kind in (_TRUE, _FALSE):
            self.at += in_list  # in a struct the header says it all
        elif kind == _BINARY:
            size = self._varint()
            self._add(start, f"{name}#")
            self.at += size
            self._add(self.at - size, name)
        else:
            if kind in _INTEGERS:
                self.values[name] = self._zigzag()
            else:
                self.at += {_BYTE: 1, _DOUBLE: 8}[kind]
            self._add(start, name)

    def _add(self, start: int, name: str) -> None:
        if self.at > start:
            self.spans.append(Span(start, self.at, name))

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def map_parquet(data: bytes, offset: int = 0) -> list[Span]:
    """Every byte of a whole Parquet file by what it is, its offsets counted from `offset`."""
    return sorted(_spans(data, offset), key=lambda span: span.start)


def _spans(data: bytes, offset: int) -> Iterator[Span]:
    size = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - size
    walk = Walk(data, start)
    walk.struct(FOOTER, "footer")
    pages = _pages(data, start)
    tail = [
        Span(0, 4, "parquet magic"),
        Span(len(data) - 8, len(data) - 4, "footer length"),
        Span(len(data) - 4, len(data), "parquet magic"),
    ]
    for span in (*walk.spans, *pages, *tail):
        yield Span(span.start + offset, span.end + offset, span.name)


def _pages(data: bytes, end: int) -> Iterator[Span]:
    """Pages follow each other from the first magic on, as all our writers lay them out."""
    at = 4
    while at < end:
        walk = Walk(data, at)
        try:
            walk.struct(PAGE_HEADER, "page")
            size = walk.values["page.compressed_page_size"]
        except (KeyError, IndexError):
            yield Span(at, end, "index")  # bloom filters, column and offset indexes
            return
        yield from walk.spans
        yield Span(walk.at, walk.at + size, "page content")
        at = walk.at + size


def flip_place(region: str) -> str:
    """The group of cases that a flipped bit in that part of a Parquet file belongs to."""
    if region.startswith("page."):
        return "flip in page header"
    if region.startswith("footer"):
        return "flip in footer"
    return "flip in page content" if region == "page content" else "flip elsewhere"
