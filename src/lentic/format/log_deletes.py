"""What delete blocks hold: deleted keys, each with the ordering value it was deleted at.

    4 version (3), 4 length, then Avro binary of the list of deletes

Integers are big-endian. In Avro a delete is a key, a partition and an ordering value in a record
that names its type, a wrapper. Which wrapper is the right one for a column is decided by those who
read: Apache Hudi compares a delete with a row only if both came as the same Java class, and rows
have dates and times as plain numbers. So these are written as int and long, and only read from the
wrappers that the schema has for them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from typing import Any, Final

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lentic.errors import Corrupt, InvalidRecord, SchemaMismatch
from lentic.format.avro import parsed_schema
from lentic.format.log_payload import CONTENT_VERSION, PREFIX, ensure_version

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1)
_WRAPPERS: Final = "org.apache.hudi.avro.model."
_ORDERING_DECIMAL: Final = pa.decimal128(30, 15)

Octets = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """A deleted key. `ordering` None: the delete counts by commit time, not by event time."""

    key: str
    partition: str
    ordering: object | None


def decode_delete_payload(content: bytes | memoryview, where: str) -> list[DeleteRecord]:
    """The deletes of a delete block, in order.

    The format marks a delete by commit time with null or with the int (not long) 0; both come out
    as None. Other orderings are plain values, several ordering fields a tuple. A timestamp or date
    may come as the number that the column stores: whoever compares knows the column's type.
    """
    size = ensure_version(content, where)
    if size != len(content) - PREFIX.size:
        raise Corrupt(
            f"A delete block of {len(content) - PREFIX.size} bytes declares {size}.", where=where
        )
    stream = io.BytesIO(content[PREFIX.size :])
    try:
        schema = parsed_schema("HoodieDeleteRecordList")
        read: Any = fastavro.schemaless_reader(stream, schema, None, return_record_name=True)
        if stream.tell() != size:
            raise ValueError(f"{size - stream.tell()} bytes are left after the last delete")
        return [_delete_record(record) for record in read["deleteRecordList"]]
    except Exception as error:  # fastavro raises whatever the bytes happen to break
        raise Corrupt(f"A delete block does not decode: {error!r}.", where=where) from error


def _delete_record(read: Mapping[str, Any]) -> DeleteRecord:
    if read["recordKey"] is None:
        raise ValueError("a delete without a key")
    ordering = _unwrap(read["orderingVal"])
    if read["orderingVal"] == (f"{_WRAPPERS}IntWrapper", {"value": 0}):
        ordering = None
    return DeleteRecord(read["recordKey"], read["partitionPath"] or "", ordering)


def _unwrap(wrapped: tuple[str, Mapping[str, Any]] | None) -> object | None:
    if wrapped is None:
        return None
    name = wrapped[0].removeprefix(_WRAPPERS)
    if name == "ArrayWrapper":
        if not wrapped[1]["wrappedValues"]:
            raise ValueError("an ordering of no values")
        return tuple(_unwrap(inner) for inner in wrapped[1]["wrappedValues"])
    value: object = wrapped[1]["value"]
    if name in ("DateWrapper", "LocalDateWrapper"):
        return _EPOCH_DAY + timedelta(days=wrapped[1]["value"])
    if name == "TimestampMicrosWrapper":
        return _EPOCH + timedelta(microseconds=wrapped[1]["value"])
    return value


class _Branch(IntEnum):
    """Where the wrappers that are written stand in the unions of the schema."""

    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DECIMAL = 9
    ARRAY = 12

    @property
    def octet(self) -> bytes:
        return bytes([self << 1])


_TEXT: Final = b"\x02"  # The second branch of a key, a partition or a list that may be null.
_END: Final = b"\0"  # Of a list.
_HARD: Final = _Branch.INT.octet + b"\0"  # The int 0.


def encode_delete_payload(
    keys: pa.Array, partition: str, ordering: tuple[pa.Array, ...] | None
) -> bytes:
    """The content of a delete block that deletes `keys`, all of `partition`.

    `ordering` has one array per ordering field, in the types of these columns. Without it, or where
    its values are null, a delete is a hard one and written as the int 0, as Apache Hudi does. The
    schema has null for it too, but Hudi fails on that where it has read a change of the key before.
    The price: at the int 0, or the date 1970-01-01, in a single ordering field a delete is hard.

    `InvalidRecord` if a key is null, or some of a delete's ordering values but not all: Hudi does
    not read that. `SchemaMismatch` if ordering values are of a type or size that has no place.
    """
    if keys.null_count:
        raise InvalidRecord(
            "A delete has no key.",
            safe="Nothing was written.",
            next_step="Give each delete a key that is not null.",
        )
    if not len(keys):
        return PREFIX.pack(CONTENT_VERSION, len(_END)) + _END
    folder = partition.encode()
    place = _TEXT + _varint(len(folder)) + folder
    moment = _orderings(ordering) if ordering else _scalar(_HARD)
    records = _join(_scalar(_TEXT), _sized(keys), _scalar(place), moment)
    avro = _varint(len(keys)) + _contents(records) + _END
    return PREFIX.pack(CONTENT_VERSION, len(avro)) + avro


def _orderings(ordering: tuple[pa.Array, ...]) -> pa.Array:
    """Per delete its ordering value, wrapped."""
    is_timed = ordering[0].is_valid()
    if any(not values.is_valid().equals(is_timed) for values in ordering):
        raise InvalidRecord(
            "A delete has values for some of the ordering fields and null for others.",
            safe="Nothing was written.",
            next_step="Give each delete a value for every ordering field, or for none.",
        )
    wrapped = [_wrapped(values) for values in ordering]
    if len(wrapped) > 1:
        start = _Branch.ARRAY.octet + _TEXT + _varint(len(wrapped))
        wrapped = [_join(_scalar(start), *wrapped, _scalar(_END))]
    return pc.if_else(is_timed, wrapped[0], _scalar(_HARD))


def _wrapped(values: pa.Array) -> pa.Array:
    """Each value as the union of wrappers has it; anything where it is null."""
    for is_kind, branch, encode in _ENCODERS:
        if is_kind(values.type):
            return _join(_scalar(branch.octet), encode(values))
    raise SchemaMismatch(
        f"A delete cannot be ordered by values of type {values.type}.",
        safe="Nothing was written.",
        next_step="Use an ordering column of numbers, text, dates or timestamps.",
    )


def _flags(values: pa.Array) -> pa.Array:
    return _fixed(values.fill_null(False).cast(pa.uint8()).to_numpy())


def _whole(values: pa.Array) -> pa.Array:
    """Integers, and dates and times as the integers that they are stored as."""
    plain = values if pa.types.is_integer(values.type) else values.view(_integer_of(values.type))
    return _varints(plain.fill_null(0).cast(pa.int64()).to_numpy())


def _integer_of(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def _floats(values: pa.Array) -> pa.Array:
    numbers = values.fill_null(0).to_numpy()
    return _fixed(numbers.astype(numbers.dtype.newbyteorder("<")))


def _decimals(values: pa.Array) -> pa.Array:
    """The digits at 15 places, as a whole number of the fewest bytes, the highest first."""
    wide = _at_15_places(values)
    lying = np.frombuffer(wide.buffers()[1], np.uint8, 16 * (wide.offset + len(wide)))
    digits = lying.reshape(-1, 16)[wide.offset :, ::-1]
    sign = digits[:, :1] >> 7
    is_idle = (digits[:, :-1] == sign * 255) & (digits[:, 1:] >> 7 == sign)
    is_idle = np.logical_and.accumulate(is_idle, axis=1)
    kept = np.column_stack([~is_idle, np.ones(len(digits), dtype=bool)])
    return _sized(_cut(digits[kept], kept.sum(axis=1)))


def _at_15_places(values: pa.Array) -> pa.Array:
    try:
        return values.cast(_ORDERING_DECIMAL)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(
            f"A delete cannot be ordered by a value of {values.type}: {error}",
            safe="Nothing was written.",
            next_step="Use ordering values of at most 15 digits before and 15 after the point.",
        ) from error


def _sized(values: pa.Array) -> pa.Array:
    """Texts or bytes, each after its length in bytes."""
    plain = values.cast(pa.large_binary())
    sizes = pc.binary_length(plain).fill_null(0).to_numpy()
    return _join(_varints(sizes), plain.fill_null(b""))


_ENCODERS: Final[
    tuple[tuple[Callable[[pa.DataType], bool], _Branch, Callable[[pa.Array], pa.Array]], ...]
] = (
    (pa.types.is_boolean, _Branch.BOOLEAN, _flags),
    (lambda kind: kind in (pa.int8(), pa.int16(), pa.int32(), pa.date32()), _Branch.INT, _whole),
    (lambda kind: kind == pa.int64() or pa.types.is_timestamp(kind), _Branch.LONG, _whole),
    (pa.types.is_float32, _Branch.FLOAT, _floats),
    (pa.types.is_float64, _Branch.DOUBLE, _floats),
    (lambda kind: kind in (pa.binary(), pa.large_binary()), _Branch.BYTES, _sized),
    (lambda kind: kind in (pa.string(), pa.large_string()), _Branch.STRING, _sized),
    (pa.types.is_decimal, _Branch.DECIMAL, _decimals),
)


# Columns of bytes: one value per delete, all in one buffer.


def _varints(numbers: Numbers) -> pa.Array:
    """Each number as Avro has it: the sign in the lowest bit, then 7 bits a byte, lowest first."""
    folded = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    width = max(1, -(-int(folded.max(initial=0)).bit_length() // 7))
    groups = folded[:, np.newaxis] >> np.arange(0, 7 * width, 7, dtype=np.uint64)
    octets = (groups & 0x7F | ((groups > 0x7F) * 0x80).astype(np.uint64)).astype(np.uint8)
    is_used = groups > 0
    is_used[:, 0] = True
    return _cut(octets[is_used], is_used.sum(axis=1))


def _varint(number: int) -> bytes:
    return bytes(_varints(np.array([number]))[0].as_py())


def _fixed(values: npt.NDArray[Any]) -> pa.Array:
    """The bytes of each number as they lie in memory."""
    return _cut(values.view(np.uint8), np.full(len(values), values.itemsize))


def _cut(octets: Octets, sizes: Numbers) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(octets))]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)


def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _scalar(b""))


def _scalar(octets: bytes) -> pa.Scalar:
    return pa.scalar(octets, pa.large_binary())


def _contents(column: pa.Array) -> bytes:
    """The values one after the other."""
    _, bounds, octets = column.buffers()
    first, last = np.frombuffer(bounds, np.int64)[[column.offset, column.offset + len(column)]]
    return bytes(octets[int(first) : int(last)])
