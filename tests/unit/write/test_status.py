"""A status crosses processes as JSON, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import Corrupt
from lentic.write.status import WriteStatus, decode_status, decode_statuses, encode_status
from tests.unit.builders import base_file, log_file, stat

COUNTS = st.integers(0, 2**63 - 1)


@given(COUNTS, COUNTS, COUNTS, st.booleans(), COUNTS)
def test_a_status_reads_back_as_it_was(
    inserted: int, updated: int, deleted: int, is_log: bool, size: int
) -> None:
    path = (log_file if is_log else base_file)(1, 2).path
    status = WriteStatus(stat(path, size=size), inserted, updated, deleted)
    text = encode_status(status)
    assert decode_status(text) == status
    assert json.loads(text)["counts"] == [inserted, updated, deleted]


def test_statuses_come_by_path_whatever_order_tasks_finished_in() -> None:
    made = [WriteStatus(stat(base_file(1, 2, file_id=name).path), 1, 0, 0) for name in "abc"]
    texts = [encode_status(status) for status in made]
    assert decode_statuses(reversed(texts)) == decode_statuses(texts) == tuple(made)
    assert decode_statuses([]) == ()


GOOD = json.loads(encode_status(WriteStatus(stat(base_file(1, 2).path), 1, 2, 3)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        json.dumps({"stat": GOOD["stat"]}),
        json.dumps(GOOD | {"counts": [1, 2]}),
        json.dumps(GOOD | {"counts": 5}),
        json.dumps(GOOD | {"stat": None}),
        json.dumps(GOOD | {"stat": GOOD["stat"] | {"path": "../outside"}}),
        json.dumps(GOOD | {"stat": GOOD["stat"] | {"path": ".hoodie/hoodie.properties"}}),
        json.dumps(GOOD | {"counts": ["1", "2", "3"]}),
        json.dumps(GOOD | {"counts": [None, None, None]}),
    ],
)
def test_what_is_no_status_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        decode_status(text)
