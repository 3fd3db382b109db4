"""A plan says of itself whether it is removable."""

from __future__ import annotations

import pytest

from lentic.errors import Corrupt
from lentic.format.clustering_plan import ClusteringPlan, encode_clustering_plan
from lentic.format.names import Action
from lentic.format.plans import CompactionPlan, encode_compaction_plan
from lentic.format.removable import REMOVABLE_KEY, decode_is_removable


def _log_compaction(**extra: str) -> bytes:
    return encode_compaction_plan(CompactionPlan((), extra))


def _is_removable(data: bytes, action: Action) -> bool:
    return decode_is_removable(data, action, "requested")


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("TRUE", True), ("false", False), ("yes", False)]
)
def test_a_log_compaction_is_removable_if_its_plan_says_true(text: str, expected: bool) -> None:
    data = _log_compaction(**{REMOVABLE_KEY: text})
    assert _is_removable(data, Action.LOGCOMPACTION) is expected
    assert not _is_removable(_log_compaction(), Action.LOGCOMPACTION)


@pytest.mark.parametrize("removable", [True, False])
def test_a_clustering_is_removable_if_its_plan_says_so(removable: bool) -> None:
    data = encode_clustering_plan(ClusteringPlan(groups=(), removable=removable), "/table")
    assert _is_removable(data, Action.CLUSTERING) is removable


def test_a_compaction_and_a_write_never_are() -> None:
    data = _log_compaction(**{REMOVABLE_KEY: "true"})
    for action in set(Action) - {Action.LOGCOMPACTION, Action.CLUSTERING}:
        assert not _is_removable(data, action)


def test_an_empty_file_says_nothing_and_a_damaged_one_is_corrupt() -> None:
    assert not _is_removable(b"", Action.CLUSTERING)
    with pytest.raises(Corrupt, match="requested"):
        _is_removable(b"Obj\x01 and more", Action.CLUSTERING)
