"""A log file is a few whole blocks, written once under a name of its own."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lentic.config.groups import Codec
from lentic.errors import InvalidRecord, SchemaMismatch, StorageError
from lentic.format.avro_schema import avro_schema_json
from lentic.format.log_block import BlockKind, Header, decode_blocks
from lentic.format.log_deletes import DeleteRecord, decode_delete_payload
from lentic.format.log_payload import decode_parquet_payload
from lentic.format.record_fields import RECORD_KEY, with_meta_schema
from lentic.records.base_writer import ParquetStyle
from lentic.records.log_scan import scan_logs
from lentic.records.log_writer import write_log
from lentic.records.merge import Change, Deletes
from lentic.storage.memory import MemoryStorage
from lentic.view.files import LogFile
from tests.rfc.claims import says
from tests.unit.builders import SCHEMA, STYLE, WrappedStorage, log_file, requested

STORED = with_meta_schema(SCHEMA)
AVRO = avro_schema_json(SCHEMA, "t", meta_fields=True)
ROWS = pa.Table.from_pylist(
    [{RECORD_KEY: "a", "id": "a", "v": 1}, {RECORD_KEY: "b", "id": "b", "v": None}], schema=STORED
)
HARD = Deletes(pa.array(["c", "d"]), None)
TIMED = Deletes(pa.array(["e", "f"]), (pa.array([5, 0], pa.int64()),))
PATH = log_file(1, 2).path


@pytest.mark.parametrize("codec", list(Codec))
def test_a_log_holds_one_parquet_block_with_instant_and_schema(codec: Codec) -> None:
    storage = MemoryStorage()
    written = write_log(
        storage,
        PATH,
        ROWS,
        avro_schema=AVRO,
        requested_at=requested(1),
        style=ParquetStyle(codec, 1_000),
    )
    data = storage.read(PATH)
    (block,) = decode_blocks(data, PATH)
    assert block.kind is BlockKind.PARQUET
    assert block.headers[Header.INSTANT_TIME] == requested(1)
    names = [field["name"] for field in json.loads(block.headers[Header.SCHEMA])["fields"]]
    assert names == STORED.names
    assert set(block.headers) == {Header.INSTANT_TIME, Header.SCHEMA}
    assert decode_parquet_payload(block.content, PATH).to_pylist() == ROWS.to_pylist()
    assert (written.size, written.rows) == (len(data), 2)


@says("S11", "R4")
def test_a_log_is_never_appended_to() -> None:
    """R4."""
    storage = WrappedStorage()
    style = ParquetStyle(Codec.ZSTD, 1_000)
    for attempt in range(2):
        try:
            write_log(storage, PATH, ROWS, avro_schema=AVRO, requested_at=requested(1), style=style)
        except StorageError:
            assert attempt == 1
    assert len(list(decode_blocks(storage.read(PATH), PATH))) == 1
    assert {op for op, _ in storage.calls} == {"open_output", "read"}


def _write(
    storage: MemoryStorage | WrappedStorage, rows: pa.Table | None, deletes: Deletes | None
) -> tuple[LogFile, int]:
    """The log that was written, and how many rows it is said to have."""
    named = log_file(1, 2)
    written = write_log(
        storage,
        named.path,
        rows,
        deletes=deletes,
        partition="p",
        avro_schema=AVRO,
        requested_at=named.name.requested_at,
        style=STYLE,
    )
    return LogFile(named.path, named.name, written.size, named.completed_at), written.rows


def _scanned(
    rows: pa.Table | None,
    deletes: Deletes | None,
    schema: pa.Schema = STORED,
    ordering: tuple[str, ...] = ("v",),
) -> list[Change]:
    storage = MemoryStorage()
    log, _ = _write(storage, rows, deletes)
    return scan_logs(storage, [log], schema, ordering)


def test_rows_come_before_deletes_and_both_have_instant_and_schema() -> None:
    storage = MemoryStorage()
    log, rows = _write(storage, ROWS, HARD)
    data = storage.read(log.path)
    blocks = list(decode_blocks(data, log.path))
    assert [block.kind for block in blocks] == [BlockKind.PARQUET, BlockKind.DELETE]
    for block in blocks:
        assert block.headers == {Header.INSTANT_TIME: requested(1), Header.SCHEMA: AVRO}
    found = decode_delete_payload(blocks[1].content, log.path)
    assert found == [DeleteRecord("c", "p", None), DeleteRecord("d", "p", None)]
    assert (log.size, rows) == (len(data), 2)


@pytest.mark.parametrize("rows", [None, ROWS[:0], ROWS], ids=["none", "empty", "rows"])
@pytest.mark.parametrize(
    "deletes",
    [None, HARD, TIMED, Deletes(HARD.keys[:0], None), Deletes(TIMED.keys[:0], (pa.array([]),))],
    ids=["none", "hard", "timed", "empty", "empty timed"],
)
def test_a_written_log_scans_as_exactly_what_was_given(
    rows: pa.Table | None, deletes: Deletes | None
) -> None:
    expected: list[Change] = []
    if rows is not None and rows.num_rows:
        expected.append(rows)
    if deletes is not None and len(deletes.keys):
        expected.append(deletes)
    if not expected:
        with pytest.raises(AssertionError, match="nothing"):
            _scanned(rows, deletes)
        return
    found = _scanned(rows, deletes)
    assert found == expected


def test_deletes_alone_are_no_rows() -> None:
    assert _write(MemoryStorage(), None, HARD)[1] == 0


MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.bool_(), [True, False]),
        (pa.int16(), [7, -7]),
        (pa.int32(), [7, -7]),
        (pa.int64(), [0, -7]),
        (pa.float32(), [0.0, -1.5]),
        (pa.float64(), [0.0, -1.5]),
        (pa.decimal128(12, 2), [Decimal("0.00"), Decimal("-12.34")]),
        (pa.string(), ["", "ü"]),
        (pa.binary(), [b"", b"\xff"]),
        (pa.date32(), [date(2026, 1, 2), date(1969, 12, 31)]),
        (pa.timestamp("us", "UTC"), [MOMENT.replace(tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)]),
        (pa.timestamp("us"), [MOMENT, datetime(1969, 1, 1)]),
    ],
    ids=str,
)
def test_deletes_ordered_by_any_type_scan_as_given(kind: pa.DataType, values: list[Any]) -> None:
    schema = pa.schema([(RECORD_KEY, pa.string()), ("o", kind), ("v", pa.int64())])
    one = Deletes(pa.array(["a", "b"]), (pa.array(values, kind),))
    assert _scanned(None, one, schema, ("o",)) == [one]
    two = Deletes(pa.array(["a", "b"]), (pa.array([1, 2], pa.int64()), pa.array(values, kind)))
    assert _scanned(None, two, schema, ("v", "o")) == [two]


def test_hard_and_timed_deletes_lie_in_blocks_of_their_own() -> None:
    """hudi-rs refuses a block whose ordering values are of two types."""
    mixed = Deletes(pa.array(["a", "b", "c"]), (pa.array([None, 5, None], pa.int64()),))
    storage = MemoryStorage()
    log, _ = _write(storage, None, mixed)
    blocks = [
        decode_delete_payload(block.content, log.path)
        for block in decode_blocks(storage.read(log.path), log.path)
    ]
    assert blocks == [
        [DeleteRecord("a", "p", None), DeleteRecord("c", "p", None)],
        [DeleteRecord("b", "p", 5)],
    ]


def test_a_value_for_the_second_ordering_field_alone_is_refused_not_taken_for_a_hard_delete() -> (
    None
):
    ordering = (pa.array([None], pa.int64()), pa.array(["x"]))
    with pytest.raises(InvalidRecord):
        _write(MemoryStorage(), ROWS, Deletes(pa.array(["c"]), ordering))


def test_deletes_that_cannot_be_stored_leave_no_file() -> None:
    storage = WrappedStorage()
    with pytest.raises(SchemaMismatch):
        _write(storage, ROWS, Deletes(pa.array(["c"]), (pa.array([[1]]),)))
    assert storage.calls == []
