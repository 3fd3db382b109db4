"""Names of timeline files, base files and log files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import InvalidPath, UnsupportedFormat
from lentic.format.names import (
    Action,
    BaseFileName,
    InstantFile,
    LogFileName,
    State,
    completed_action,
    format_base_file,
    format_instant_file,
    format_log_file,
    parse_base_file,
    parse_instant_file,
    parse_log_file,
)
from lentic.format.times import CompletedAt, RequestedAt
from tests.rfc.claims import says

T = RequestedAt("20261115094933815")
C = CompletedAt("20261115094934815")
DIGITS = st.text("0123456789", min_size=1, max_size=17)
FILE_ID = "558d8207-0dd2-49a4-bc3e-f49cd5ea1190-0"

BY_HUDI = {
    "20261115094933815.commit.requested": (Action.COMMIT, State.REQUESTED, None),
    "20261115094933815.inflight": (Action.COMMIT, State.INFLIGHT, None),
    "20261115094933815_20261115094934815.commit": (Action.COMMIT, State.COMPLETED, C),
    "20261115094933815.deltacommit.inflight": (Action.DELTACOMMIT, State.INFLIGHT, None),
    "20261115094933815.compaction.requested": (Action.COMPACTION, State.REQUESTED, None),
    "20261115094933815.logcompaction.inflight": (Action.LOGCOMPACTION, State.INFLIGHT, None),
    "20261115094933815.clustering.requested": (Action.CLUSTERING, State.REQUESTED, None),
    "20261115094933815.clustering.aborted": (Action.CLUSTERING, State.ABORTED, None),
    "20261115094933815_20261115094934815.replacecommit": (
        Action.REPLACECOMMIT,
        State.COMPLETED,
        C,
    ),
    "20261115094933815.savepoint.inflight": (Action.SAVEPOINT, State.INFLIGHT, None),
    "20261115094933815_20261115094934815.rollback": (Action.ROLLBACK, State.COMPLETED, C),
    "20261115094933815_20261115094934815.clean": (Action.CLEAN, State.COMPLETED, C),
    "20261115094933815_20261115094934815.restore": (Action.RESTORE, State.COMPLETED, C),
    "20261115094933815.indexing.requested": (Action.INDEXING, State.REQUESTED, None),
    "20261115094933815.schemacommit.requested": (Action.SCHEMACOMMIT, State.REQUESTED, None),
}


@says("rfc66.format.completed")
@pytest.mark.parametrize("name", BY_HUDI)
def test_timeline_files_of_hudi_parse_and_format_back(name: str) -> None:
    action, state, completed_at = BY_HUDI[name]
    file = InstantFile(T, action, state, completed_at)
    assert parse_instant_file(name) == file
    assert format_instant_file(file) == name


@pytest.mark.parametrize(
    "name",
    [
        "history",
        "",
        ".20261115094933815.commit.requested.crc",
        "20261115094933815.commit.requested.crc",
        "20261115094933815.deltacommit.inflight.4f1c-uuid",
        "20261115094933815_20261115094934815.compaction",
        "20261115094933815_20261115094934815.clustering",
        "20261115094933815_20261115094934815.commit.requested",
        "20261115094933815.commit.inflight",
        "20261115094933815.savepoint.requested",
        "20261115094933815.compaction.aborted",
        "20261115094933815.commit.requested\n",
        "x/20261115094933815.inflight",
        "\uff12\uff10.inflight",
        "20261115094933815.unheard.requested",
    ],
)
def test_other_names_are_no_timeline_files(name: str) -> None:
    assert parse_instant_file(name) is None


def test_a_completed_file_without_completion_time_is_refused_rather_than_ignored() -> None:
    with pytest.raises(UnsupportedFormat, match="before 8"):
        parse_instant_file("20261115094933815.commit")


def test_plans_complete_under_the_name_of_what_they_make() -> None:
    assert completed_action(Action.COMPACTION) is Action.COMMIT
    assert completed_action(Action.LOGCOMPACTION) is Action.DELTACOMMIT
    assert completed_action(Action.CLUSTERING) is Action.REPLACECOMMIT
    assert completed_action(Action.CLEAN) is Action.CLEAN


def test_an_instant_that_has_no_such_file_cannot_be_formatted() -> None:
    with pytest.raises(AssertionError):
        format_instant_file(InstantFile(T, Action.COMPACTION, State.COMPLETED, C))
    with pytest.raises(AssertionError):
        format_instant_file(InstantFile(T, Action.COMMIT, State.COMPLETED, None))


@given(
    requested_at=DIGITS,
    completed_at=DIGITS,
    action=st.sampled_from(Action),
    state=st.sampled_from([State.REQUESTED, State.INFLIGHT, State.COMPLETED]),
)
def test_instant_names_round_trip(
    requested_at: str, completed_at: str, action: Action, state: State
) -> None:
    if state is State.REQUESTED and action is Action.SAVEPOINT:
        state = State.INFLIGHT
    is_completed = state is State.COMPLETED
    file = InstantFile(
        RequestedAt(requested_at),
        completed_action(action) if is_completed else action,
        state,
        CompletedAt(completed_at) if is_completed else None,
    )
    parsed = parse_instant_file(format_instant_file(file))
    assert parsed == file
    assert parsed is not None
    assert type(parsed.requested_at) is RequestedAt


def test_a_base_file_of_hudi_parses() -> None:
    name = f"{FILE_ID}_1-2866-6023_20261115095151179.parquet"
    file = BaseFileName(FILE_ID, "1-2866-6023", RequestedAt("20261115095151179"))
    assert parse_base_file(name) == file
    assert str(file) == name
    assert parse_log_file(name) is None


@says("rfc66.name.pattern", "rfc66.name.parse")
def test_a_log_file_of_hudi_parses() -> None:
    name = f".{FILE_ID}_20261115095153415.log.1_1-2890-6076"
    file = LogFileName(FILE_ID, RequestedAt("20261115095153415"), 1, "1-2890-6076")
    assert parse_log_file(name) == file
    assert str(file) == name
    assert parse_log_file(name + ".cdc") == LogFileName(
        FILE_ID, RequestedAt("20261115095153415"), 1, "1-2890-6076", ".cdc"
    )
    assert parse_base_file(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "p0/a_0-0-0_1.parquet",
        "../a_0-0-0_1.parquet",
        "a/b_0-0-0_1.parquet",
        "a_0-0-0_1.parquet/x",
        "a_0-0-0_1.parquet.crc",
        ".a_0-0-0_1.parquet.crc",
        "a_0-0-0_1.parquet\n",
        "a_0-0-0_x.parquet",
        "a_1.parquet",
        ".hoodie_partition_metadata",
        ".p0/a_1.log.1_0-0-0",
        ".a/../b_1.log.1_0-0-0",
        ".a_1.log.1_0-0-0.crc",
        "..a_1.log.1_0-0-0.crc",
        ".a_1.log.01_0-0-0",
        ".a_1.log.1234567890_0-0-0",
        ".a_1.log.1",
        ".a_1.log.1_0-0",
        "a_1.log.1_0-0-0",
    ],
)
def test_other_names_are_no_data_files(name: str) -> None:
    assert parse_base_file(name) is None
    assert parse_log_file(name) is None


IDENTIFIER = st.text("abcXYZ019-", min_size=1, max_size=40)
TOKEN = st.tuples(*[st.integers(0, 10**6)] * 3).map(lambda parts: "{}-{}-{}".format(*parts))


@given(IDENTIFIER, IDENTIFIER, DIGITS, st.sampled_from(["parquet", "hfile", "orc"]))
def test_base_names_round_trip(file_id: str, token: str, at: str, extension: str) -> None:
    file = BaseFileName(file_id, token, RequestedAt(at), extension)
    assert parse_base_file(format_base_file(file)) == file


@given(
    st.text("abcXYZ019-_", min_size=1, max_size=40),
    DIGITS,
    st.integers(0, 10**9 - 1),
    TOKEN,
    st.sampled_from(["", ".cdc"]),
)
def test_log_names_round_trip(file_id: str, at: str, version: int, token: str, suffix: str) -> None:
    file = LogFileName(file_id, RequestedAt(at), version, token, suffix)
    assert parse_log_file(format_log_file(file)) == file


@given(st.text(max_size=60))
def test_whatever_parses_is_formatted_back_to_the_same_name(name: str) -> None:
    for file in (parse_base_file(name), parse_log_file(name)):
        assert file is None or str(file) == name


def test_a_name_with_a_path_separator_cannot_be_made() -> None:
    with pytest.raises(InvalidPath):
        BaseFileName("../x", "0-0-0", T)
    with pytest.raises(InvalidPath):
        BaseFileName("x", "0-0-0", T, "parquet/x")
    with pytest.raises(InvalidPath):
        LogFileName("a/b", T, 1, "0-0-0")
    with pytest.raises(InvalidPath):
        LogFileName("a", T, -1, "0-0-0")
    with pytest.raises(InvalidPath):
        LogFileName("a", T, 1, "0-0-0", "/x")
