"""Log files become changes in merge order; damage is an error and never a silent skip (P13)."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.avro_schema import avro_schema_json
from lentic.format.log_block import BlockKind, Header, encode_block
from lentic.format.log_deletes import encode_delete_payload
from lentic.format.log_payload import encode_avro_payload, encode_parquet_payload
from lentic.format.record_fields import RECORD_KEY
from lentic.records.log_scan import scan_logs
from lentic.records.merge import Change, Deletes
from lentic.storage.memory import MemoryStorage
from lentic.view.files import LogFile
from tests.rfc.claims import says
from tests.unit.builders import log_file, time

SCHEMA = pa.schema([(RECORD_KEY, pa.string()), ("v", pa.int64()), ("o", pa.int64())])
AVRO = avro_schema_json(pa.schema([("v", pa.int64()), ("o", pa.int64())]), "t", meta_fields=True)


def _rows(*keys: str) -> pa.Table:
    return pa.Table.from_pylist([{RECORD_KEY: k, "v": 1, "o": 2} for k in keys], schema=SCHEMA)


def _block(kind: BlockKind, content: bytes, **extra: str) -> bytes:
    headers = {Header.INSTANT_TIME: time(1), Header.SCHEMA: AVRO}
    headers |= {Header[name]: text for name, text in extra.items()}
    return encode_block(kind, headers, content)


def _parquet(*keys: str, **extra: str) -> bytes:
    return _block(BlockKind.PARQUET, encode_parquet_payload(_rows(*keys)), **extra)


def _deletes(*given: tuple[Any, ...], kinds: tuple[pa.DataType, ...] = (pa.int64(),)) -> bytes:
    """Deletes of (key, ordering value per kind)."""
    keys, *values = zip(*given, strict=True)
    ordering = tuple(pa.array(*each) for each in zip(values, kinds, strict=True))
    return _block(BlockKind.DELETE, encode_delete_payload(pa.array(keys), "p", ordering))


def _stored(*contents: bytes) -> tuple[MemoryStorage, list[LogFile]]:
    """One log file per content, in merge order."""
    storage = MemoryStorage()
    logs = []
    for number, content in enumerate(contents, start=1):
        named = log_file(number, number)
        storage.put_if_absent(named.path, content)
        logs.append(LogFile(named.path, named.name, len(content), named.completed_at))
    return storage, logs


def _scan(
    *contents: bytes, ordering: tuple[str, ...] = ("o",), schema: pa.Schema = SCHEMA
) -> list[Change]:
    storage, logs = _stored(*contents)
    return scan_logs(storage, logs, schema, ordering)


def _shown(changes: list[Change]) -> list[Any]:
    """Rows as their keys; deletes as (key, ordering values)."""
    shown: list[Any] = []
    for change in changes:
        if not isinstance(change, Deletes):
            shown.append(change.column(RECORD_KEY).to_pylist())
            continue
        keys = change.keys.to_pylist()
        if change.ordering is None:
            shown.append([(key, None) for key in keys])
        else:
            columns = [column.to_pylist() for column in change.ordering]
            shown.append(list(zip(keys, *columns, strict=True)))
    return shown


def test_changes_come_in_the_order_of_files_and_of_blocks_within_them() -> None:
    changes = _scan(_parquet("a") + _parquet("b", "c"), _deletes(("a", None)), b"")
    assert _shown(changes) == [["a"], ["b", "c"], [("a", None)]]


def test_rows_of_avro_blocks_are_read_like_those_of_parquet_blocks() -> None:
    block = _block(
        BlockKind.AVRO, encode_avro_payload([{RECORD_KEY: "a", "v": 5, "o": None}], AVRO)
    )
    (rows,) = _scan(block)
    assert isinstance(rows, pa.Table)
    assert rows.schema == SCHEMA
    assert rows.to_pylist() == [{RECORD_KEY: "a", "v": 5, "o": None}]


@pytest.mark.parametrize("names", [[RECORD_KEY], [RECORD_KEY, "o"], ["o", RECORD_KEY, "new"]])
def test_rows_have_exactly_the_columns_asked_for(names: list[str]) -> None:
    wider = SCHEMA.append(pa.field("new", pa.string()))
    schema = pa.schema([wider.field(name) for name in names])
    avro = _block(BlockKind.AVRO, encode_avro_payload([{RECORD_KEY: "a", "v": 5, "o": 1}], AVRO))
    for change in _scan(_parquet("a"), avro, schema=schema, ordering=()):
        assert isinstance(change, pa.Table)
        assert change.schema == schema
        assert change.num_rows == 1


def test_a_delete_without_ordering_value_or_with_hudis_zero_is_hard() -> None:
    assert _shown(_scan(_deletes(("a", None)))) == [[("a", None)]]
    null = _block(BlockKind.DELETE, struct.pack(">ii", 3, 8) + b"\x02\x02\x02a\x02\0\0\0")
    assert _shown(_scan(null)) == [[("a", None)]]


def test_hard_and_timed_deletes_of_one_block_are_told_apart() -> None:
    changes = _shown(_scan(_deletes(("a", 7), ("b", None), ("c", 8))))
    assert sorted(found for change in changes for found in change) == [
        ("a", 7),
        ("b", None),
        ("c", 8),
    ]


def test_a_delete_at_long_zero_is_timed() -> None:
    """Only null and the int (not long) 0 mark a hard delete: 0 is a moment like any other."""
    assert _shown(_scan(_deletes(("a", 0)))) == [[("a", 0)]]


def test_without_ordering_fields_every_delete_is_hard() -> None:
    block = _deletes(("a", 7), ("b", None))
    assert _shown(_scan(block, ordering=())) == [[("a", None), ("b", None)]]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int16(), 7),
        (pa.int32(), 7),
        (pa.int64(), 7),
        (pa.float32(), 1.5),
        (pa.float64(), 1.5),
        (pa.decimal128(12, 2), Decimal("-12.34")),
        (pa.string(), "x"),
        (pa.binary(), b"\xff"),
        (pa.date32(), date(2026, 1, 2)),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        (pa.timestamp("us"), datetime(2026, 1, 2, 3, 4, 5, 6)),
        (pa.bool_(), True),
    ],
)
def test_a_timed_deletes_value_has_the_type_of_its_column(kind: pa.DataType, value: Any) -> None:
    schema = pa.schema([(RECORD_KEY, pa.string()), ("o", kind)])
    block = _deletes(("a", value), kinds=(kind,))
    (change,) = _scan(block, schema=schema)
    assert isinstance(change, Deletes)
    assert change.ordering is not None
    assert change.ordering[0].type == kind
    assert _shown([change]) == [[("a", value)]]


def test_several_ordering_values_are_taken_apart() -> None:
    schema = SCHEMA.append(pa.field("s", pa.string()))
    block = _deletes(("a", 7, "x"), ("b", 8, "y"), kinds=(pa.int64(), pa.string()))
    changes = _scan(block, schema=schema, ordering=("o", "s"))
    assert _shown(changes) == [[("a", 7, "x"), ("b", 8, "y")]]


def test_one_of_several_ordering_values_may_be_null() -> None:
    """Others may have written that."""
    schema = SCHEMA.append(pa.field("s", pa.string()))
    avro = b"\x02\x02\x02b\x02\0\x18\x02\x04\x00\x0e\x02y\0\0"
    block = _block(BlockKind.DELETE, struct.pack(">ii", 3, len(avro)) + avro)
    assert _shown(_scan(block, schema=schema, ordering=("o", "s"))) == [[("b", None, "y")]]


def test_an_ordering_value_of_the_wrong_type_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="ordering"):
        _scan(_deletes(("a", "text"), kinds=(pa.string(),)))


@pytest.mark.parametrize("value", [(7,), (7, 8, 9)])
def test_another_number_of_ordering_values_than_fields_is_corrupt(value: tuple[int, ...]) -> None:
    schema = SCHEMA.append(pa.field("o2", pa.int64()))
    with pytest.raises(Corrupt):
        block = _deletes(("a", *value), kinds=(pa.int64(),) * len(value))
        _scan(block, schema=schema, ordering=("o", "o2"))


@says("P13")
def test_a_command_block_undoes_the_blocks_of_its_target_wherever_they_lie() -> None:
    undo = _block(BlockKind.COMMAND, b"", TARGET_INSTANT_TIME=time(7), COMMAND_BLOCK_TYPE="0")
    bad, good = _parquet("bad", INSTANT_TIME=time(7)), _parquet("good")
    assert _shown(_scan(bad + good, undo)) == [["good"]]
    assert _shown(_scan(undo + bad, good)) == [["good"]]


def _at(instant: int, key: str, *replaces: int) -> bytes:
    """A block of one row, written at `instant`; it stands for the blocks of `replaces`."""
    extra = {"INSTANT_TIME": time(instant)}
    if replaces:
        extra["COMPACTED_BLOCK_TIMES"] = ",".join(time(number) for number in replaces)
    return _parquet(key, **extra)


@says("rfc66.slices.folded")
@pytest.mark.parametrize(
    ("contents", "read"),
    [
        ([_at(1, "a"), _at(2, "b"), _at(3, "ab", 1, 2)], ["ab"]),
        ([_at(1, "a"), _at(2, "b"), _at(3, "c"), _at(4, "ab", 1, 2)], ["ab", "c"]),
        ([_at(1, "a"), _at(2, "b"), _at(3, "ab", 1, 2), _at(4, "d")], ["ab", "d"]),
        ([_at(1, "a"), _at(2, "a1", 1), _at(3, "b"), _at(4, "a1b", 2, 3)], ["a1b"]),
        ([_at(3, "ab", 1, 2), _at(4, "d")], ["ab", "d"]),
    ],
    ids=["all", "before a later block", "then more", "a chain", "what it folded is gone"],
)
def test_blocks_folded_by_a_log_compaction_are_replaced_at_the_place_of_the_newest(
    contents: list[bytes], read: list[str]
) -> None:
    """N13: each block counts once, either itself or in the block that folded it."""
    assert [keys[0] for keys in _shown(_scan(*contents))] == read


def test_a_partial_update_carries_the_columns_it_set() -> None:
    part = _rows("a").select([RECORD_KEY, "o"])
    [change] = _scan(_block(BlockKind.PARQUET, encode_parquet_payload(part), IS_PARTIAL="true"))
    assert not isinstance(change, Deletes)
    assert set(change.column_names) == {RECORD_KEY, "o"}


def test_a_whole_update_that_says_so_is_read() -> None:
    assert _shown(_scan(_parquet("a", IS_PARTIAL="false"))) == [["a"]]


@pytest.mark.parametrize("kind", [BlockKind.CDC, BlockKind.HFILE])
def test_blocks_of_other_kinds_are_refused(kind: BlockKind) -> None:
    with pytest.raises(UnsupportedFormat, match=kind.name):
        _scan(_parquet("a") + _block(kind, b""))


def test_a_log_shorter_or_longer_than_listed_is_corrupt() -> None:
    storage, (log,) = _stored(_parquet("a"))
    for size in (log.size - 1, log.size + 1, 0):
        with pytest.raises(Corrupt) as caught:
            other = LogFile(log.path, log.name, size, log.completed_at)
            scan_logs(storage, [other], SCHEMA, ())
        assert caught.value.where == log.path


@says("P13")
def test_a_log_cut_anywhere_but_between_blocks_is_corrupt() -> None:
    first, second = _parquet("a"), _deletes(("b", 1))
    whole = first + second
    for cut in range(len(whole) + 1):
        if cut in (0, len(first), len(whole)):
            continue
        with pytest.raises(Corrupt):
            _scan(whole[:cut])


def test_a_data_block_without_record_keys_is_corrupt() -> None:
    """Rows without a key would be dropped or merged at random."""
    without = encode_parquet_payload(pa.table({"v": [1], "o": [2]}))
    empty = encode_parquet_payload(_rows("a").set_column(0, RECORD_KEY, pa.nulls(1, pa.string())))
    for content in (without, empty):
        with pytest.raises(Corrupt):
            _scan(_block(BlockKind.PARQUET, content))


def test_a_flipped_byte_is_an_error_or_leaves_the_keys_as_they_are() -> None:
    block, other = _parquet("a", "b"), _deletes(("c", 9))
    wrong = []
    found = 0
    for at in range(len(block)):
        damaged = bytearray(block)
        damaged[at] ^= 0x40
        try:
            shown = _shown(_scan(bytes(damaged) + other))
        except (Corrupt, UnsupportedFormat):
            found += 1
            continue
        if shown != [["a", "b"], [("c", 9)]]:
            wrong.append((at, shown))
    assert not wrong
    assert found > len(block) // 4
