"""Change records (CDC) of ours against Hudi's, image by image.

Hudi gives `before` and `after` as JSON of one of two forms, by where it found the image:

* out of a base file: nulls of structs and maps are left out, `_hoodie_*` columns are there, bytes
  are base64, and of a decimal nothing is left but whether it is zero (`{"zero": false}`);
* out of a CDC log: nulls are kept, there are no `_hoodie_*` columns, bytes are text of one
  character per byte, and a decimal is the list of its bytes.

In both a date is its day number and a timestamp its microseconds. Our images are put into the form
of Hudi's, so that all that Hudi wrote is compared, but for `_hoodie_*`.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

Image = Mapping[str, Any]
Change = tuple[str, str, str]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_COLUMNS = ["op", "ts", "before", "after"]


def ensure_same_changes(ours: pa.Table, expected: list[dict[str, Any]]) -> None:
    """The same changes, and every image the same value for value."""
    assert ours.column_names == _COLUMNS
    rows = ours.to_pylist()
    found, wanted = Counter(map(_change, rows)), Counter(map(_change, expected))
    assert found == wanted, f"extra: {found - wanted}, missing: {wanted - found}"
    assert max(wanted.values()) == 1, "a change is told apart by operation, time and key"
    ours_of = {_change(row): row for row in rows}
    for theirs in expected:
        mine = ours_of[_change(theirs)]
        for image in ("before", "after"):
            kind = ours.schema.field(image).type
            seen = _as_hudi_writes(mine[image], kind, theirs[image])
            assert seen == _without_meta(theirs[image]), f"{image} of {_change(theirs)}"


def _change(row: Mapping[str, Any]) -> Change:
    image = row["after"] or row["before"]
    return row["op"], row["ts"], image["id"]


def _as_hudi_writes(ours: Image | None, kind: pa.DataType, theirs: Image | None) -> Any:
    if ours is None:
        return None
    return _hudi_json(ours, kind, from_base_file="_hoodie_record_key" in (theirs or {}))


def _without_meta(image: Image | None) -> Any:
    if image is None:
        return None
    return {name: value for name, value in image.items() if not name.startswith("_hoodie_")}


def _hudi_json(value: Any, kind: pa.DataType, *, from_base_file: bool) -> Any:
    if value is None or isinstance(value, bool | int | str | float):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode() if from_base_file else value.decode("latin-1")
    if isinstance(value, Decimal):
        return {"zero": value == 0} if from_base_file else _decimal_bytes(value, kind)
    if isinstance(value, dt.datetime):
        return (value.astimezone(dt.UTC) - _EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return value.toordinal() - _EPOCH.toordinal()
    if types.is_map(kind) or types.is_struct(kind):
        parts = dict(value)
        kinds = {name: _part_type(kind, name) for name in parts}
        written = {
            name: _hudi_json(part, kinds[name], from_base_file=from_base_file)
            for name, part in parts.items()
        }
        return {n: v for n, v in written.items() if v is not None or not from_base_file}
    assert isinstance(value, list), f"{kind}: {value!r}"
    return [_hudi_json(item, kind.value_type, from_base_file=from_base_file) for item in value]


def _part_type(kind: pa.DataType, name: str) -> pa.DataType:
    return kind.item_type if types.is_map(kind) else kind.field(name).type


def _decimal_bytes(value: Decimal, kind: pa.DataType) -> list[int]:
    """The unscaled number as signed bytes, in the least width that holds the precision."""
    width = next(n for n in range(1, 17) if 10**kind.precision <= 2 ** (8 * n - 1))
    unscaled = int(value.scaleb(kind.scale))
    packed = unscaled.to_bytes(width, "big", signed=True)
    return [byte - 256 if byte > 127 else byte for byte in packed]
