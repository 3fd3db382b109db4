"""Facts are plain sums over what readers see."""

from __future__ import annotations

import json

from lentic.cli.facts import PartitionFacts, TableFacts, instant_facts, partition_facts
from lentic.format.names import Action, State
from lentic.timeline.instant import Instant
from lentic.view.files import FileGroupId, FileSlice
from tests.unit.builders import base_file, completed, log_file, requested, slice_of, time


def _slice(partition: str, file_id: str, logs: int, has_base: bool = True) -> FileSlice:
    base = base_file(1, 2, partition=partition, file_id=file_id) if has_base else None
    found = tuple(log_file(n, n, partition=partition, file_id=file_id) for n in range(3, 3 + logs))
    part = slice_of(base, *found)
    return FileSlice(FileGroupId(partition, file_id), part.barrier, part.base, part.logs)


def test_slices_are_summed_up_by_partition_in_order() -> None:
    slices = [
        _slice("q", "a", 1),
        _slice("p", "a", 0),
        _slice("p", "b", 2),
        _slice("p", "c", 1, has_base=False),
    ]
    assert partition_facts(slices) == [
        PartitionFacts(
            "p", file_groups=3, base_bytes=200, log_files=3, log_bytes=30, small_files=2
        ),
        PartitionFacts(
            "q", file_groups=1, base_bytes=100, log_files=1, log_bytes=10, small_files=1
        ),
    ]
    assert partition_facts([]) == []


def test_an_instant_is_told_in_plain_text_values() -> None:
    done = Instant(requested(1), Action.COMMIT, State.COMPLETED, completed(2))
    assert instant_facts(done) == {
        "requested_at": time(1),
        "completed_at": time(2),
        "action": "commit",
        "state": "completed",
    }
    pending = Instant(requested(1), Action.COMPACTION, State.INFLIGHT)
    assert json.loads(json.dumps(instant_facts(pending)))["completed_at"] is None


def test_facts_of_a_table_are_json() -> None:
    facts = TableFacts(
        path="/t",
        name="t",
        table_type="MERGE_ON_READ",
        version=9,
        key=["id"],
        partition_by=[],
        ordering=[],
        merge_mode="COMMIT_TIME_ORDERING",
        buckets=None,
        columns={"id": "string"},
        completed=0,
        pending=0,
        partitions=partition_facts([_slice("p", "a", 1)]),
    )
    told = json.loads(json.dumps(facts.to_json()))
    assert told["buckets"] is None
    assert told["partitions"][0]["log_files"] == 1
