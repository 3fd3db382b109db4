"""Partition paths: how a row's partition columns become the folder it lies in.

Values are joined by `/`, hive style puts `field=` before each, a null or empty value becomes
`__HIVE_DEFAULT_PARTITION__`. Without url-encoding a `/` in a value makes folders of its own.

A value comes from a row, the path goes to the storage: so every path made here has passed
`ensure_safe_partition`, and no row can leave the table, reach its `.hoodie` folder or name a
folder that some file system silently renames.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lentic.errors import InvalidRecord
from lentic.format.keys import column_of, string_form

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"

_NAME_BYTES_MAX: Final = 255
_ESCAPES: Final = {
    code: f"%{code:02X}" for code in [*range(0x20), 0x7F, *map(ord, "\"#%'*/:=?\\{[]^")]
}


def partition_paths(
    table: pa.Table | pa.RecordBatch, fields: tuple[str, ...], *, hive_style: bool, url_encode: bool
) -> pa.StringArray:
    """The partition path of each row; "" for all of them if there are no `fields`.

    Python runs once per distinct combination of values. A value that would make an unsafe
    folder raises `InvalidRecord` naming its column and the first row that has it.
    """
    if not fields:
        return pa.repeat(pa.scalar(""), table.num_rows)
    columns = [string_form(column_of(table, name), name) for name in fields]
    encoded = [pc.dictionary_encode(column, null_encoding="encode") for column in columns]
    codes = np.zeros(table.num_rows, np.int64)
    for column in encoded:
        # Renumbering after each column keeps the product below rows * values, far from 2**63.
        codes = np.unique(codes, return_inverse=True)[1] * max(len(column.dictionary), 1)
        codes += column.indices.to_numpy(zero_copy_only=False)
    _, first_rows, inverse = np.unique(codes, return_index=True, return_inverse=True)
    paths = []
    for row in first_rows.tolist():
        values = [column[row].as_py() for column in columns]
        parts = [
            _folder(name, value, hive_style=hive_style, url_encode=url_encode)
            for name, value in zip(fields, values, strict=True)
        ]
        for name, value, part in zip(fields, values, parts, strict=True):
            flaw = _path_flaw(part)
            if flaw:
                raise _unsafe(f"Column {name} of row {row} (the first is 0) is {value!r}", flaw)
        paths.append(ensure_safe_partition("/".join(parts)))
    return pa.array(paths, pa.string()).take(pa.array(inverse, pa.int64()))


def ensure_safe_partition(path: str) -> str:
    """`path` itself if every folder of it is safe to create, else `InvalidRecord`.

    "" is refused: the path of an unpartitioned table needs no check.
    """
    flaw = _path_flaw(path)
    if flaw:
        raise _unsafe(f"The partition path is {path!r}", flaw)
    return path


def _folder(name: str, value: str | None, *, hive_style: bool, url_encode: bool) -> str:
    folder = value or DEFAULT_PARTITION
    if url_encode:
        folder = folder.translate(_ESCAPES)
    return f"{name}={folder}" if hive_style else folder


def _path_flaw(path: str) -> str:
    if path.startswith("/"):
        return "starts with a slash"
    return next(filter(None, map(_folder_flaw, path.split("/"))), "")


def _folder_flaw(folder: str) -> str:
    """What makes `folder` unsafe, to follow the word "which"; "" if nothing does."""
    if folder == "":
        return "has an empty folder name"
    if folder in (".", ".."):
        return f"names the folder {folder!r}"
    if folder.lower().startswith(".hoodie"):
        return "starts with .hoodie, the table's own folder"
    if "\\" in folder:
        return "holds a backslash"
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in folder):
        return "holds a control character"
    if folder.endswith((".", " ")):
        return "ends in a dot or a space"
    if len(folder.encode()) > _NAME_BYTES_MAX:
        return f"is longer than {_NAME_BYTES_MAX} bytes"
    return ""


def _unsafe(what: str, flaw: str) -> InvalidRecord:
    return InvalidRecord(
        f"{what}, which {flaw} and so is no safe folder name.",
        safe="Nothing was written.",
        next_step="Clean the value, or, if slashes, backslashes or control characters are the"
        " trouble, create the table with hoodie.datasource.write.partitionpath.urlencode=true.",
    )
