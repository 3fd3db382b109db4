"""Base files: checksummed, named in every row, in bounded row groups; damage is told."""

from __future__ import annotations

import gc
import io
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lentic.config.groups import Codec
from lentic.engine import LocalEngine
from lentic.errors import Corrupt, Unavailable
from lentic.format.record_fields import FILE_NAME, META_FIELDS, with_meta_schema
from lentic.records.base_writer import ParquetStyle, Written, dictionary_columns, write_base
from lentic.records.slice_reader import read_base
from lentic.storage.memory import MemoryStorage
from tests.unit.builders import base_file, concat

SCHEMA = with_meta_schema(
    pa.schema(
        [
            pa.field("n", pa.int64(), nullable=False),
            ("s", pa.string()),
            ("l", pa.list_(pa.field("element", pa.int32()))),
        ]
    )
)
FILE = base_file(1, 2)
NAME = FILE.path.rpartition("/")[2]


def _rows(count: int, start: int = 0) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"_hoodie_record_key": f"k{n}", FILE_NAME: "older", "n": n, "s": "few", "l": [n, None]}
            for n in range(start, start + count)
        ],
        schema=SCHEMA,
    )


def _write(
    storage: MemoryStorage,
    batches: list[pa.RecordBatch],
    rows: int = 1_000,
    codec: Codec = Codec.ZSTD,
) -> Written:
    return write_base(storage, FILE.path, batches, SCHEMA, ParquetStyle(codec, rows))


def _file(storage: MemoryStorage) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(storage.read(FILE.path)), page_checksum_verification=True)


def _read(storage: MemoryStorage, schema: pa.Schema = SCHEMA) -> pa.Table:
    return concat(read_base(storage, FILE, schema), schema)


def test_rows_read_back_with_the_files_own_name_in_each() -> None:
    storage = MemoryStorage()
    written = _write(storage, _rows(5).to_batches(max_chunksize=2))
    expected = _rows(5).set_column(
        SCHEMA.get_field_index(FILE_NAME), SCHEMA.field(FILE_NAME), pa.array([NAME] * 5)
    )
    assert _read(storage).to_pylist() == expected.to_pylist()
    assert written == Written(len(storage.read(FILE.path)), 5)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_written_as_asked_and_read_back(codec: Codec) -> None:
    storage = MemoryStorage()
    _write(storage, _rows(5).to_batches(), codec=codec)
    used = {
        _file(storage).metadata.row_group(0).column(index).compression
        for index in range(len(SCHEMA))
    }
    names = {Codec.LZ4: {"LZ4", "LZ4_RAW"}}
    assert used <= names.get(codec, {codec.value.upper()})
    assert _read(storage).num_rows == 5


def test_no_rows_make_a_file_of_no_rows_with_its_schema() -> None:
    for batches in ([], _rows(3).slice(0, 0).to_batches(), [_rows(3).to_batches()[0].slice(0, 0)]):
        storage = MemoryStorage()
        assert _write(storage, batches).rows == 0
        assert _file(storage).schema_arrow.names == SCHEMA.names
        assert _read(storage).num_rows == 0


def test_row_groups_are_bounded() -> None:
    storage = MemoryStorage()
    _write(storage, _rows(5_500).to_batches(max_chunksize=700), rows=1_000)
    found = _file(storage).metadata
    sizes = [found.row_group(index).num_rows for index in range(found.num_row_groups)]
    assert max(sizes) <= 1_000
    assert sum(sizes) == 5_500


def test_a_batch_larger_than_a_row_group_is_cut() -> None:
    storage = MemoryStorage()
    _write(storage, _rows(2_500).combine_chunks().to_batches(), rows=1_000)
    found = _file(storage).metadata
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [1000, 1000, 500]


def test_rows_are_held_for_one_row_group_at_most() -> None:
    """The source is read only as far as needed for the next row group."""
    storage = MemoryStorage()
    taken = []

    def source() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            taken.append(storage.info(FILE.path))
            yield _rows(500, start=number * 500).to_batches()[0]

    write_base(storage, FILE.path, source(), SCHEMA, ParquetStyle(Codec.ZSTD, 1_000))
    assert len(taken) == 10
    assert _file(storage).metadata.num_row_groups == 5


def test_a_file_ends_in_the_middle_of_a_row_group_when_the_work_was_stopped() -> None:
    """Whoever stopped it waits for its end."""
    written: list[int] = []

    class Stopping(MemoryStorage):
        @contextmanager
        def open_output(self, path: str) -> Iterator[Any]:
            with super().open_output(path) as sink:
                raw = sink.write

                def write(data: Any) -> int:
                    written.append(len(data))
                    stop()
                    return raw(data)

                yield SimpleNamespace(write=write, tell=sink.tell)

    storage = Stopping()
    with LocalEngine().stoppable() as stop, pytest.raises(Unavailable, match="was stopped"):
        _write(storage, _rows(900).to_batches())
    gc.collect()  # Arrow ends what it has begun: not here
    assert len(written) == 1, "the first bytes of the file, and nothing of its rows"
    assert storage.info(FILE.path) is None


def test_few_distinct_values_get_a_dictionary_and_many_do_not() -> None:
    table = pa.table(
        {
            **{name: ["x"] * 100 for name in META_FIELDS},
            "constant": [1] * 100,
            "tenth": [n % 10 for n in range(100)],
            "more": [n % 11 for n in range(100)],
            "unique": list(range(100)),
            "nulls": pa.nulls(100, pa.string()),
            "nested": [[1]] * 100,
        }
    )
    chosen = dictionary_columns(table)
    assert {"_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name"} <= set(chosen)
    assert not {"_hoodie_record_key", "_hoodie_commit_seqno"} & set(chosen)
    assert {"constant", "tenth", "nulls"} <= set(chosen)
    assert not {"more", "unique", "nested"} & set(chosen)


def test_the_choice_shows_in_the_file() -> None:
    storage = MemoryStorage()
    _write(storage, _rows(200).to_batches())
    group = _file(storage).metadata.row_group(0)
    encodings = {
        group.column(index).path_in_schema: group.column(index).encodings
        for index in range(group.num_columns)
    }
    assert "RLE_DICTIONARY" in encodings["s"]
    assert "RLE_DICTIONARY" in encodings["_hoodie_file_name"]
    assert "RLE_DICTIONARY" not in encodings["n"]
    assert "RLE_DICTIONARY" not in encodings["_hoodie_record_key"]


def test_lists_have_three_levels_and_no_arrow_schema_is_stored() -> None:
    storage = MemoryStorage()
    _write(storage, _rows(1).to_batches())
    file = _file(storage)
    paths = {file.metadata.schema.column(index).path for index in range(len(SCHEMA))}
    assert "l.list.element" in paths
    assert b"ARROW:schema" not in (file.metadata.metadata or {})


def test_pages_carry_checksums() -> None:
    """With the checksum verified, no flipped byte of a page goes unseen."""
    storage = MemoryStorage()
    _write(storage, _rows(50).to_batches(), codec=Codec.UNCOMPRESSED)
    whole = storage.read(FILE.path)
    at = whole.index(b"k25")
    storage.replace(FILE.path, whole[:at] + b"j25" + whole[at + 3 :])
    unchecked = pq.read_table(io.BytesIO(storage.read(FILE.path)))
    assert "j25" in unchecked.column("_hoodie_record_key").to_pylist(), "only a checksum can tell"
    with pytest.raises(Corrupt) as caught:
        _read(storage)
    assert caught.value.where == FILE.path


def _damaged() -> tuple[MemoryStorage, bytes, list[dict[str, Any]]]:
    storage = MemoryStorage()
    _write(storage, _rows(40).to_batches(max_chunksize=20))
    return storage, storage.read(FILE.path), _read(storage).to_pylist()


def test_a_cut_base_file_is_corrupt() -> None:
    storage, whole, _ = _damaged()
    for cut in range(0, len(whole), 7):
        storage.replace(FILE.path, whole[:cut])
        with pytest.raises(Corrupt):
            _read(storage)


def _flips(first: int, last: int) -> Iterator[tuple[str, MemoryStorage, list[dict[str, Any]]]]:
    """The file with one bit wrong, for two bits of every byte from `first` to before `last`."""
    storage, whole, good = _damaged()
    for at in range(first, last):
        for bit in {at % 7, 7}:
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            storage.replace(FILE.path, bytes(damaged))
            yield f"byte {at}, bit {bit}", storage, good


def _footer_start() -> int:
    _, whole, _ = _damaged()
    return len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")


def test_a_flipped_bit_in_the_data_gives_corrupt_or_exact_rows() -> None:
    wrong = {}
    for which, storage, good in _flips(0, _footer_start()):
        try:
            rows = _read(storage).to_pylist()
        except Corrupt as error:
            assert error.where == FILE.path
        else:
            if rows != good:
                wrong[which] = f"{len(rows)} rows of {len(good)}"
    assert not wrong


def test_a_flipped_bit_in_the_footer_gives_corrupt_or_as_many_rows_as_were_written() -> None:
    """The footer has no checksum, so a wrong column name cannot be told from another column; but
    no damage may lose rows without a word or raise anything but `Corrupt`."""
    wrong = {}
    _, whole, _ = _damaged()
    for which, storage, good in _flips(_footer_start(), len(whole)):
        try:
            count = _read(storage).num_rows
        except Corrupt as error:
            assert error.where == FILE.path
        except Exception as error:
            wrong[which] = repr(error)
        else:
            if count != len(good):
                wrong[which] = f"{count} rows of {len(good)}"
    assert not wrong


def test_a_base_file_that_is_no_parquet_is_corrupt() -> None:
    for content in (b"", b"PAR1", b"PAR1PAR1", b"\x00" * 500, b"PAR1" + b"\xff" * 100 + b"PAR1"):
        storage = MemoryStorage()
        storage.put_if_absent(FILE.path, content)
        with pytest.raises(Corrupt):
            _read(storage)


def test_columns_are_brought_to_the_schema_asked_for() -> None:
    storage = MemoryStorage()
    _write(storage, _rows(3).to_batches())
    schema = pa.schema([("s", pa.string()), ("n", pa.float64()), ("new", pa.int64())])
    assert _read(storage, schema).to_pylist() == [
        {"s": "few", "n": float(n), "new": None} for n in range(3)
    ]


def test_a_file_without_any_column_asked_for_still_has_its_rows() -> None:
    storage = MemoryStorage()
    _write(storage, _rows(3).to_batches())
    assert _read(storage, pa.schema([("new", pa.int64())])).to_pylist() == [{"new": None}] * 3
