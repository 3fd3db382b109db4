"""What a file of archived instants says of itself: never less than there is, or nothing at all."""

from __future__ import annotations

import io
from dataclasses import replace
from random import Random

import pyarrow.parquet as pq
import pytest

from lentic.errors import Corrupt
from lentic.format.commit_metadata import encode_commit_metadata
from lentic.format.lsm import (
    ArchivedRow,
    ArchivedTimes,
    HistoryReader,
    encode_rows,
    name_rows,
)
from lentic.format.lsm_index import GroupSpan, decode_index, encode_index
from lentic.format.names import Action
from tests.unit.builders import completed, metadata, requested

ENDED = frozenset((f"p{number % 3}", f"group-{number}") for number in range(500))


def span(first: int, last: int, *actions: Action) -> GroupSpan:
    return GroupSpan(requested(first), requested(last), completed(last + 1), frozenset(actions))


SPANS = (span(1, 4, Action.COMMIT, Action.ROLLBACK), span(5, 5, Action.REPLACECOMMIT))


def archived(at: int, *file_ids: str, filler: int = 0) -> ArchivedRow:
    """A replacement that ended these groups of `p`; a commit if there are none."""
    ended = metadata(replaced={"p": file_ids}) if file_ids else metadata()
    ended = replace(ended, extra={"filler": "x" * filler})
    action = Action.REPLACECOMMIT if file_ids else Action.COMMIT
    content = encode_commit_metadata(ended, replaces=bool(file_ids))
    return ArchivedRow(ArchivedTimes(requested(at), action, completed(at + 1)), content)


ROWS = [archived(at, *(["a", f"b{at}"] if at % 3 == 0 else []), filler=9_000) for at in range(90)]


def opened(data: bytes) -> HistoryReader:
    return HistoryReader(io.BytesIO(data), name_rows(ROWS, 0), "here")


def test_an_index_comes_back() -> None:
    index = decode_index(encode_index(SPANS, ENDED).encode())
    assert index is not None
    assert index.spans == SPANS


def test_what_was_ended_is_always_found_and_hardly_anything_else() -> None:
    index = decode_index(encode_index(SPANS, ENDED).encode())
    assert index is not None
    assert all(index.may_have_ended({group}) for group in ENDED)
    others = [(f"p{number}", f"group-{number}") for number in range(10, 10_000)]
    assert sum(index.may_have_ended({other}) for other in others) < 30
    assert not index.may_have_ended(frozenset())


def test_the_same_id_in_another_partition_is_another_group() -> None:
    """In buckets every partition may have the same ids."""
    index = decode_index(encode_index(SPANS, {("p", "00000000-0")}).encode())
    assert index is not None
    assert index.may_have_ended({("p", "00000000-0")})
    assert not index.may_have_ended({("q", "00000000-0")})


def test_who_does_not_know_what_was_ended_excludes_nothing() -> None:
    nobody_knows = decode_index(encode_index(SPANS, None).encode())
    too_many = {("p", str(number)) for number in range(100_001)}
    not_kept = decode_index(encode_index(SPANS, too_many).encode())
    nothing = decode_index(encode_index(SPANS, frozenset()).encode())
    assert nobody_knows and not_kept and nothing
    assert nobody_knows.may_have_ended({("p", "x")})
    assert not_kept.may_have_ended({("p", "x")})
    assert not nothing.may_have_ended({("p", "x")})


@pytest.mark.parametrize("at", range(0, 300, 7))
def test_an_index_that_was_damaged_is_not_believed(at: int) -> None:
    text = bytearray(encode_index(SPANS, ENDED).encode())
    text[at] ^= 1 << at % 7
    assert decode_index(bytes(text)) is None
    assert decode_index(bytes(text[:at])) is None


@pytest.mark.parametrize("text", ["", "00000000", "xyz", '{"first":[]}', "[" * 10_000])
def test_what_is_no_index_is_none(text: str) -> None:
    assert decode_index(text.encode()) is None


def test_a_span_covers_what_lies_between_its_ends() -> None:
    one = span(3, 6)
    assert [one.covers([str(requested(at))]) for at in range(2, 8)] == [
        False, True, True, True, True, False,
    ]  # fmt: skip
    assert one.covers([str(requested(at)) for at in (1, 4, 9)])
    assert not one.covers([str(requested(at)) for at in (1, 2, 7)])
    assert not one.covers([])


def test_a_file_says_what_its_row_groups_have_and_its_replacements_ended() -> None:
    reader = opened(encode_rows(ROWS))
    index = reader.read_index()
    assert index is not None and len(index.spans) > 3
    every = range(len(index.spans))
    assert reader.read_times_of(every, index) == opened(encode_rows(ROWS)).read_times()
    assert index.may_have_ended({("p", "a")}) and index.may_have_ended({("p", "b33")})
    assert not index.may_have_ended({("p", "b34"), ("q", "a")})


@pytest.mark.parametrize("content", [b"", b"Obj", b"nothing"])
def test_a_replacement_that_does_not_say_what_it_ended_may_have_ended_anything(
    content: bytes,
) -> None:
    rows = [replace(row, metadata=content) if row is ROWS[3] else row for row in ROWS]
    index = opened(encode_rows(rows)).read_index()
    assert index is not None and index.ended is None


def without_index(data: bytes) -> bytes:
    sink = io.BytesIO()
    table = pq.read_table(io.BytesIO(data))
    pq.write_table(table.replace_schema_metadata({}), sink, row_group_size=20)
    return sink.getvalue()


def test_a_file_of_another_engine_has_none_and_reads_all_the_same() -> None:
    reader = opened(without_index(encode_rows(ROWS)))
    assert reader.read_index() is None
    assert reader.read_rows() == tuple(ROWS)


def test_an_index_of_other_rows_is_not_believed() -> None:
    other = HistoryReader(io.BytesIO(encode_rows(ROWS[:50])), name_rows(ROWS, 0), "here")
    assert other.read_index() is None
    reader = opened(encode_rows(ROWS))
    index = reader.read_index()
    assert index is not None
    with pytest.raises(Corrupt):
        reader.read_times_of([0], replace(index, spans=index.spans[1:]))


def test_however_a_file_is_damaged_it_is_read_as_it_was_or_not_at_all() -> None:
    data, chance = encode_rows(ROWS), Random(1)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    seen = {"exact": 0, "refused": 0}
    for number in range(600):
        at = chance.randrange(footer, len(data)) if number % 2 else chance.randrange(len(data))
        damaged = bytearray(data)
        damaged[at] ^= 1 << chance.randrange(8)
        try:
            reader = opened(bytes(damaged))
            index = reader.read_index()
            if index is None:
                times = reader.read_times()
            else:
                times = reader.read_times_of(range(len(index.spans)), index)
                assert index.may_have_ended({("p", "b33")})
        except Corrupt:
            seen["refused"] += 1
            continue
        assert [own for group in times for own in group] == [
            row.times
            for row in sorted(ROWS, key=lambda row: bool(row.times.action.startswith("r")))
        ], at
        seen["exact"] += 1
    assert min(seen.values()) > 50
