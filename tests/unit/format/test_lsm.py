"""Files of the archived timeline: both ways, and as Apache Hudi writes them."""

from __future__ import annotations

import io
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from lentic.errors import Corrupt
from lentic.format.lsm import ArchivedRow, ArchivedTimes, HistoryReader, encode_rows, name_rows
from lentic.format.lsm_names import ListedFile, decode_manifest, encode_manifest, parse_history_name
from lentic.format.names import Action
from tests.unit.builders import completed, requested


def row(at: int, plan: bytes | None = None) -> ArchivedRow:
    times = ArchivedTimes(requested(at), Action.COMMIT, completed(at + 1))
    return ArchivedRow(times, b"metadata %d" % at, plan)


def test_rows_come_back_by_requested_time() -> None:
    rows = [row(at, b"plan" if at % 2 else None) for at in range(200, 0, -1)]
    name = name_rows(rows, 2)
    assert parse_history_name(str(name)) == name
    reader = HistoryReader(io.BytesIO(encode_rows(rows)), name, "here")
    assert reader.read_rows() == tuple(reversed(rows))
    assert len(reader.read_times()) > 1, "one instant must not cost a whole file"


def groups_of(rows: list[ArchivedRow]) -> list[list[int]]:
    """The requested times of the rows of each row group."""
    reader = HistoryReader(io.BytesIO(encode_rows(rows)), name_rows(rows, 0), "here")
    numbers = {requested(at): at for at in range(200)}
    return [[numbers[times.requested_at] for times in group] for group in reader.read_times()]


def test_rows_with_much_content_lie_in_row_groups_of_their_own() -> None:
    large = [replace(row(at), metadata=b"x" * 200_000) for at in (3, 4)]
    planned = replace(row(6), plan=b"x" * 300_000)
    rows = [row(1), row(2), *large, row(5), planned, row(7)]
    assert groups_of(rows) == [[1, 2, 3], [4, 5], [6], [7]]


def test_replacements_lie_together_for_whoever_has_to_read_them_all() -> None:
    ends = replace(row(0).times, action=Action.REPLACECOMMIT)
    rows = [
        replace(row(at), times=replace(ends, requested_at=requested(at)))
        if at % 2
        else replace(row(at), metadata=b"x" * 300_000)
        for at in range(1, 7)
    ]
    rows = [replace(one, times=replace(one.times, completed_at=completed(100))) for one in rows]
    assert groups_of(rows) == [[2], [4], [6], [1, 3, 5]]
    reader = HistoryReader(io.BytesIO(encode_rows(rows)), name_rows(rows, 0), "here")
    assert reader.read_rows() == tuple(rows)


@pytest.mark.parametrize("has_statistics", [True, False])
def test_the_last_completion_is_found_whether_the_footer_says_it_or_not(
    has_statistics: bool,
) -> None:
    rows = [replace(row(at), metadata=b"x" * 200_000) for at in (1, 2, 3)]
    rows[0] = replace(rows[0], times=replace(rows[0].times, completed_at=completed(100)))
    data = encode_rows(rows)
    if not has_statistics:
        sink = io.BytesIO()
        pq.write_table(pq.read_table(io.BytesIO(data)), sink, write_statistics=False)
        data = sink.getvalue()
    reader = HistoryReader(io.BytesIO(data), name_rows(rows, 0), "here")
    assert reader.read_last_completion() == completed(100)


def test_the_columns_are_those_of_apache_hudi() -> None:
    file = pq.ParquetFile(io.BytesIO(encode_rows([row(1)])))
    columns = [file.schema.column(at) for at in range(6)]
    assert [(c.name, c.physical_type, c.max_definition_level) for c in columns] == [
        ("instantTime", "BYTE_ARRAY", 1),
        ("completionTime", "BYTE_ARRAY", 1),
        ("action", "BYTE_ARRAY", 1),
        ("metadata", "BYTE_ARRAY", 1),
        ("plan", "BYTE_ARRAY", 1),
        ("version", "INT32", 0),
    ]
    assert b'"HoodieLSMTimelineInstant"' in file.metadata.metadata[b"parquet.avro.schema"]


def test_a_name_that_does_not_fit_its_rows_is_told() -> None:
    reader = HistoryReader(io.BytesIO(encode_rows([row(1)])), name_rows([row(1), row(5)], 0), "x")
    with pytest.raises(Corrupt):
        reader.read_rows()


def test_a_manifest_comes_back_and_names_nothing_else() -> None:
    listed = (ListedFile(name_rows([row(1)], 0), 7),)
    assert decode_manifest(encode_manifest(listed), "here") == listed
    with pytest.raises(Corrupt):
        decode_manifest(b'{"files":[{"fileName":"../x_0.parquet","fileLen":1}]}', "here")
