"""The simple bucket index: which bucket, and so which file group, a record key belongs to.

Writers agree on a key's file group only by computing the same hash, so this is Java's, bit for
bit: `List.hashCode` over the values of the hash fields, each by `String.hashCode`, which counts
UTF-16 code units (a character outside the basic plane is two). 32-bit wrap, sign bit dropped,
modulo the number of buckets.

A key with a `,` and a `:` is taken for a composite one, whoever made it, and its values are
parsed out of the text again. Values that hold these two characters themselves may come out
differently from how they went in. That is part of the format: the key decides, not the columns.

Cost: linear in the bytes of the keys and free of per-row Python. 31 is odd, so it has an inverse
modulo 2**32; weighing code unit i by 31**-i makes the hash of any slice one difference of running
sums and one product. About a tenth of a microsecond per key of twenty characters, three tenths if
it is composite; memory beyond the result is bounded, for keys are worked through piece by piece.
Only composite keys whose values hold separators are parsed one by one, some five microseconds each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lentic.errors import InvalidRecord
from lentic.format.keys import EMPTY_VALUE, NULL_VALUE

BUCKETS_MAX: Final = 99_999_999

_Ints = npt.NDArray[np.int64]
_Hashes = npt.NDArray[np.uint32]
_Bytes = npt.NDArray[np.uint8]

_CHUNK_BYTES: Final = 1 << 18
_COLON: Final = ord(":")
_COMMA: Final = ord(",")
_31: Final = np.uint32(31)
_INVERSE_OF_31: Final = np.uint32(pow(31, -1, 1 << 32))


def bucket_ids(
    keys: pa.StringArray, buckets: int, *, hash_fields: tuple[str, ...] = ()
) -> npt.NDArray[np.int32]:
    """The bucket of each key, from 0 to `buckets` - 1.

    `hash_fields` is `hoodie.bucket.index.hash.field`, by default the table's key fields; without
    any, every value found in a composite key counts. Keys without both `,` and `:` are hashed
    whole, as are composite ones that have none of the fields.
    """
    assert keys.null_count == 0, "every record has a key"
    wanted = tuple(name.encode() for name in hash_fields if name)
    hashes = [_key_hashes(text, wanted) for text in _texts(keys)]
    return _to_buckets(hashes, buckets)


def bucket_ids_of_values(columns: Sequence[pa.StringArray], buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of each row of hash field values; nulls count 0.

    Equals `bucket_ids` of the composite keys made of the same two or more columns, as long as no
    value holds `,` or `:` or is `__null__` or `__empty__`. Where other engines write to the same
    buckets, use `bucket_ids`.
    """
    assert columns, "there is at least one hash field"
    hashes = np.ones(len(columns[0]), np.uint32)
    for column in columns:
        values = hash_codes(column)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        hashes = _31 * hashes + np.where(valid, values, np.uint32(0))
    return _to_buckets([hashes], buckets)


def hash_codes(texts: pa.StringArray | pa.ChunkedArray) -> npt.NDArray[np.uint32]:
    """Java's `String.hashCode` of each text; what nulls give is not said."""
    parts = [_slice_hashes(text, text.starts, text.ends) for text in _texts(texts)]
    return np.concatenate([np.empty(0, np.uint32), *parts])


def bucket_file_id(bucket: int, ended: Set[str] = frozenset()) -> str:
    """The file id of a bucket, the same for every writer: `00000005-0000-0000-0000-000000000000-0`,
    or the next number in the last twelve digits that is not `ended`."""
    assert 0 <= bucket <= BUCKETS_MAX, bucket
    file_ids = (f"{bucket:08d}-0000-0000-0000-{number:012d}-0" for number in count())
    return next(file_id for file_id in file_ids if file_id not in ended)


def parse_bucket(file_id: str) -> int | None:
    """The bucket that `file_id` begins with, fixed or random rest alike; None if it has none."""
    head = file_id[:8]
    if len(head) == 8 and head.isascii() and head.isdigit() and file_id[8:9] == "-":
        return int(head)
    return None


@dataclass(frozen=True, slots=True)
class _Text:
    """Some rows of a string column: row i is `data[starts[i]:ends[i]]`, in UTF-8.

    `units[n]` is the number of UTF-16 code units before byte n, None if all bytes are ASCII;
    `sums[n]` the running sum of the weighted first n code units.
    """

    data: _Bytes
    starts: _Ints
    ends: _Ints
    units: _Ints | None
    sums: _Hashes
    powers: _Hashes


def _texts(column: pa.StringArray | pa.ChunkedArray) -> Iterator[_Text]:
    """`column` cut into pieces that fit the processor's cache; null rows come out as they lie."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    for chunk in chunks:
        if len(chunk) == 0:
            continue
        strings = chunk.cast(pa.string())
        offsets_buffer, data_buffer = strings.buffers()[1:]
        offsets = np.frombuffer(offsets_buffer, np.int32)[strings.offset :][: len(strings) + 1]
        offsets = offsets.astype(np.int64)
        data = np.frombuffer(data_buffer or b"", np.uint8)
        row = 0
        while row < len(chunk):
            limit = int(np.searchsorted(offsets, offsets[row] + _CHUNK_BYTES, "right")) - 1
            until = max(row + 1, limit)
            bounds = offsets[row : until + 1]
            yield _text(data[bounds[0] : bounds[-1]], bounds - bounds[0])
            row = until


def _text(data: _Bytes, offsets: _Ints) -> _Text:
    units: _Ints | None = None
    codes: npt.NDArray[np.uint8] | npt.NDArray[np.uint16] = data
    if data.size and int(data.max()) >= 0x80:
        try:
            wide = data.tobytes().decode().encode("utf-16-le")
        except UnicodeDecodeError as error:
            raise InvalidRecord(
                f"A record key is no valid UTF-8: {error}.",
                safe="Nothing was written.",
                next_step="Clean the key columns.",
            ) from error
        codes = np.frombuffer(wide, "<u2")
        # Continuation bytes start no code unit, leads of four-byte sequences start two.
        starting = ((data & 0xC0) != 0x80).astype(np.int8) + (data >= 0xF0)
        units = np.concatenate([np.zeros(1, np.int64), np.cumsum(starting, dtype=np.int64)])
    sums = np.zeros(codes.size + 1, np.uint32)
    # Only a single key longer than a chunk needs more powers than are at hand.
    size = max(codes.size, _CHUNK_BYTES)
    weights, powers = _powers(size) if size > _CHUNK_BYTES else _POWERS
    np.cumsum(codes * weights[: codes.size], dtype=np.uint32, out=sums[1:])
    return _Text(data, offsets[:-1], offsets[1:], units, sums, powers)


def _powers(count: int) -> tuple[_Hashes, _Hashes]:
    """The first `count` powers, modulo 2**32, of the inverse of 31 and of 31."""
    return (
        np.cumprod(np.append(np.uint32(1), np.full(count - 1, _INVERSE_OF_31)), dtype=np.uint32),
        np.cumprod(np.append(np.uint32(1), np.full(count - 1, _31)), dtype=np.uint32),
    )


_POWERS: Final = _powers(_CHUNK_BYTES)


def _slice_hashes(text: _Text, starts: _Ints, ends: _Ints) -> _Hashes:
    """Java's `String.hashCode` of each `data[starts[i]:ends[i]]`."""
    if text.units is not None:
        starts, ends = text.units[starts], text.units[ends]
    # An empty slice at the very start has no last unit; its sum is 0, so any power will do.
    return (text.sums[ends] - text.sums[starts]) * text.powers[np.maximum(ends - 1, 0)]


def _key_hashes(text: _Text, wanted: tuple[bytes, ...]) -> _Hashes:
    """Java's `List.hashCode` of the values that count in each key."""
    hashes = _31 + _slice_hashes(text, text.starts, text.ends)
    separators = np.flatnonzero((text.data == _COLON) | (text.data == _COMMA))
    if separators.size == 0:
        return hashes
    is_comma = text.data[separators] == _COMMA
    first = np.searchsorted(separators, text.starts)
    counts = np.searchsorted(separators, text.ends) - first
    rows = np.repeat(np.arange(text.starts.size), counts)
    commas = np.bincount(rows, is_comma, text.starts.size)
    composite = (commas > 0) & (commas < counts)
    # Plain means `f:v,f:v`: colon and comma take turns, and there is an odd number of them.
    is_second = ((np.arange(separators.size) - first[rows]) & 1).astype(bool)
    out_of_turn = np.bincount(rows, is_comma != is_second, text.starts.size)
    plain = composite & (out_of_turn == 0) & (counts & 1 == 1)
    _hash_plain(text, hashes, wanted, separators[plain[rows]], rows[plain[rows]])
    for row in np.flatnonzero(composite & ~plain).tolist():
        key = text.data[text.starts[row] : text.ends[row]].tobytes()
        hashes[row] = _list_hash(_parse_values(key, wanted))
    return hashes


def _hash_plain(
    text: _Text, hashes: _Hashes, wanted: tuple[bytes, ...], separators: _Ints, rows: _Ints
) -> None:
    """Sets `hashes` for keys of the form `f:v,f:v`, given all their separators in order."""
    if rows.size == 0:
        return
    is_first = np.concatenate([[True], rows[1:] != rows[:-1]])
    is_last = np.concatenate([is_first[1:], [True]])
    before = np.where(is_first, text.starts[rows], np.roll(separators, 1) + 1)
    after = np.where(is_last, text.ends[rows], np.roll(separators, -1))
    colon = text.data[separators] == _COLON
    rows, names, starts, ends = rows[colon], before[colon], separators[colon] + 1, after[colon]
    if wanted:
        counting = np.zeros(rows.size, bool)
        for name in wanted:
            counting |= _equal(text.data, names, starts - 1, name)
        rows, starts, ends = rows[counting], starts[counting], ends[counting]
    values = _slice_hashes(text, starts, ends)
    missing = _equal(text.data, starts, ends, NULL_VALUE.encode())
    missing |= _equal(text.data, starts, ends, EMPTY_VALUE.encode())
    values[missing] = 0
    first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]])[: rows.size])
    counts = np.diff(np.append(first, rows.size))
    hashes[rows[first]] = 1
    for number in range(int(counts.max(initial=0))):
        now = first[counts > number] + number
        hashes[rows[now]] = _31 * hashes[rows[now]] + values[now]


def _equal(data: _Bytes, starts: _Ints, ends: _Ints, what: bytes) -> npt.NDArray[np.bool_]:
    """Whether each `data[starts[i]:ends[i]]` is `what`."""
    equal: npt.NDArray[np.bool_] = np.equal(ends - starts, len(what))
    for position, byte in enumerate(what):
        candidates = np.flatnonzero(equal)
        if candidates.size == 0:
            break
        equal[candidates] = data[starts[candidates] + position] == byte
    return equal


def _parse_values(key: bytes, wanted: tuple[bytes, ...]) -> list[bytes | None]:
    """The values that count in a composite key, [key] if none does.

    A value ends at the last `,` before the first `:` that has a `,` between it and the value's
    start, so it may hold many `,` but a `:` only as long as no `,` comes before it.
    """
    values: list[bytes | None] = []
    start = 0
    while start < len(key):
        colon = key.index(b":", start)
        comma = -1
        following = key.find(b":", colon + 1)
        while following >= 0 and comma < 0:
            comma = key.rfind(b",", colon, following)
            following = key.find(b":", following + 1)
        end = comma if comma >= 0 else len(key)
        if not wanted or key[start:colon] in wanted:
            value = key[colon + 1 : end]
            values.append(None if value == NULL_VALUE.encode() else value)
        start = end + 1
    return values or [key]


def _list_hash(values: Sequence[bytes | None]) -> int:
    total = 1
    for value in values:
        text = "" if value is None or value == EMPTY_VALUE.encode() else value.decode()
        units = np.frombuffer(text.encode("utf-16-le"), "<u2").tolist()
        one = 0
        for unit in units:
            one = 31 * one + unit & 0xFFFFFFFF
        total = 31 * total + one & 0xFFFFFFFF
    return total


def _to_buckets(hashes: Sequence[_Hashes], buckets: int) -> npt.NDArray[np.int32]:
    assert 0 < buckets <= BUCKETS_MAX, buckets
    whole = np.concatenate([np.empty(0, np.uint32), *hashes])
    return ((whole & np.uint32(0x7FFFFFFF)) % np.uint32(buckets)).astype(np.int32)
