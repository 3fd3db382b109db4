"""Commit metadata and write stats."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.avro import decode_container, encode_container
from lentic.format.commit_metadata import (
    CommitMetadata,
    WriteStat,
    decode_commit_metadata,
    encode_commit_metadata,
)
from lentic.format.times import RequestedAt
from tests.rfc.claims import says

# A completed upsert of one file, as Apache Hudi 1.2.0 wrote it.
COMMIT_BY_HUDI = zlib.decompress(
    base64.b64decode(
        "eNq9V0Fv2zYUTnQrsOMw7Fodhh1iQZIdJ/YxXYYFaNEiTtoBhWFQ1JPNVhRVivKSFT7ssmOPPfTU8w77Af0J/Q"
        "VF/0gvPYyUbNeJJVmi4yVAIol87318/Pi9x8fei33jBzTlzErwBCj60H5tiusYzL7JATPumwdmhKh6/40xn8AD"
        "RikRj0AgHwk0H01ihNUUxscWks8TsCapT6zMMWU+hHJiQCD0E7P//PXCY4y4IIKw6II940TAQCCRyJk5gOdmlI"
        "bScAmIolgOTlGYgnSz/Iw4R9dyQDqgq9+L8S8DFSIKSAhnfjmERHASjeV4trIXaIqs+ae+OcgfZsMD04cApaEw"
        "+8p8drCyYDHZnXMO03x3dhYiSmmWv/VNMkMmbatNf4EQdG0vY0k30A0umEBhZnxyvaWDU84Z1/Cw5PqTXXIgw/"
        "mQjc8z7usuVDr4VR4EXfN8r/w5BklJqQjyXWvfz6IEuNhiISchwy917R8wztNYLNxoejlnYegh/FIXihKlAfkT"
        "ziJN9oZs/BR4Ism3bksiscH0cRAkIJpH9VACikY7I3tYRtONpaFO4NtxK4BgHzcqXXnqqqI3CK5k/2TXqaYkOp"
        "1CJC4IheZMoOhqC2ueRkIabshwcbU/v2m7XvCzAzrAKNLDlqsEB6l3Wzi4jJXINXEwnNXV8C3k91sxQb4C92gL"
        "GVb6tQ0UoPFOC+eyxUjqb8FMNxguT4THWAgoqsoFXAmOVhrwZt1yPem7E2WartUcVWwOcqCrds6KEYuBo+xOoG"
        "zudruHs70vn6e//0X+dT7+ePL3m3vvvhrvfzKMPcN42Om60LO7hy3XtqHVOey5reO2fdxC2MHOseMHRx60bOPt"
        "fr2JI7t16PRajt3ujVzb7TqOc2j3Oj3XOeralmwGX6UgDPPmkHvUNnyJ5mfjn0/78r/8VX++zx/Vxz310wiE3Z"
        "EgXHe0FmkBQvrLvH/4FjGLanyX3wg/3i/VWMz+GEXxKGLUF6Mbg4sL4SRTYWt1YqEMk4KjMN/PCoIl8EpDSnQu"
        "IKhImjcDVE2/jp2fdS0l1M8PkWx+CEbhRf5NKVel5JC227j3I063sY2nJWlBEbogZKgyVtDtrFv5LPVkI1SVXM"
        "DlyQ3IFawwfPW1gtNWwUmw8jiJLHxmv7u2YYAJRQqw7N8wyXSy77hyvpwjJ7SrNtMj4/9rEctQ+Tqcdq2FtO3l"
        "QrqVnUqSlq9i3iTfDKe6uUQgGrcowZwlZnWeCi48XnaHqlIVUb/LzOZq5LVQBNFdnLbN4oLrLw9rsiYpVnm//n"
        "Edzpr1vPKmV/sauJarDY6rCFHiujSjC3d3xZmrxpy5rs+ZYXXOaVy3+7xVaAs7M9lwXD4ZnJ5f3G7R/gMO74pZ"
    )
)

T = RequestedAt("20261115094921760")
BASE = WriteStat(
    file_id="f-0",
    path=f"p0/f-0_0-1-2_{T}.parquet",
    partition="p0",
    prev_commit=RequestedAt("20261115094921273"),
    writes=50,
    updates=20,
    inserts=10,
    deletes=1,
    size=13845,
    base_file="f-0_0-0-0_20261115094921273.parquet",
)
LOG_NAME = f".f-0_{T}.log.1_0-1-2"
LOG = WriteStat(
    file_id="f-0",
    path=LOG_NAME,
    partition="",
    prev_commit=None,
    writes=3,
    updates=3,
    inserts=0,
    deletes=0,
    size=99,
    base_file="",
    log_files=(LOG_NAME,),
    log_version=1,
)
COMMIT = CommitMetadata("UPSERT", False, (BASE, LOG), {"schema": "{}"})


def test_a_commit_of_hudi_decodes() -> None:
    metadata = decode_commit_metadata(COMMIT_BY_HUDI, "x")
    assert metadata.operation == "UPSERT"
    assert not metadata.compacted
    assert metadata.replaced == {}
    assert json.loads(metadata.extra["schema"])["name"] == "cow_np_nomdt_record"
    file_id = "462e9065-200e-4592-8308-ac1c181df7be-0"
    path = f"{file_id}_0-519-1039_20261115094921760.parquet"
    assert metadata.stats == (
        WriteStat(
            file_id=file_id,
            path=path,
            partition="",
            prev_commit=RequestedAt("20261115094921273"),
            writes=50,
            updates=20,
            inserts=10,
            deletes=0,
            size=13845,
            base_file=f"{file_id}_0-504-1022_20261115094921273.parquet",
        ),
    )
    assert metadata.paths() == {path}


@says("rfc66.format.metadata")
def test_what_we_write_of_a_commit_of_hudi_differs_only_in_its_timings() -> None:
    theirs = decode_container(COMMIT_BY_HUDI, "x")
    written = encode_commit_metadata(decode_commit_metadata(COMMIT_BY_HUDI, "x"))
    ours = decode_container(written, "x")
    assert theirs is not None and ours is not None
    theirs["partitionToWriteStats"][""][0]["runtimeStats"] = None
    assert ours == theirs


def test_metadata_round_trips() -> None:
    assert decode_commit_metadata(encode_commit_metadata(COMMIT), "x") == COMMIT


def test_a_log_stat_says_what_it_stands_beside_and_a_base_stat_what_it_replaces() -> None:
    record = decode_container(encode_commit_metadata(COMMIT), "x")
    assert record is not None
    base, log = record["partitionToWriteStats"]["p0"][0], record["partitionToWriteStats"][""][0]
    assert (base["prevBaseFile"], base["baseFile"], base["logFiles"]) == (
        BASE.base_file,
        None,
        None,
    )
    assert (log["prevBaseFile"], log["baseFile"], log["logFiles"]) == (None, "", [LOG_NAME])
    assert (log["logVersion"], log["logOffset"], log["prevCommit"]) == (1, 0, "null")
    assert base["fileSizeInBytes"] == base["totalWriteBytes"] == 13845
    assert LOG.is_log and not BASE.is_log


@pytest.mark.parametrize(
    ("operation", "replaced", "replaces"),
    [
        ("UPSERT", {}, False),
        ("UPSERT", {"p0": ("a-0", "b-0")}, True),
        ("INSERT_OVERWRITE", {}, True),
        ("INSERT_OVERWRITE", {}, False),
        ("DELETE_PARTITION", {"p0": ("a-0",)}, True),
        ("DELETE_PARTITION", {}, False),
    ],
)
def test_the_action_and_not_the_operation_decides_the_schema(
    operation: str, replaced: dict[str, tuple[str, ...]], replaces: bool
) -> None:
    """In buckets an overwrite is a plain write; elsewhere it replaces, if only by nothing."""
    metadata = replace(COMMIT, operation=operation, replaced=replaced)
    data = encode_commit_metadata(metadata, replaces=replaces)
    assert (b"partitionToReplaceFileIds" in data) == replaces
    assert decode_commit_metadata(data, "x") == metadata


def test_what_ends_file_groups_is_never_written_as_a_plain_commit() -> None:
    with pytest.raises(AssertionError, match="replacecommit"):
        encode_commit_metadata(replace(COMMIT, replaced={"p0": ("a-0",)}))


def test_the_groups_of_a_commit_are_those_it_wrote_to_and_those_it_ended() -> None:
    metadata = replace(COMMIT, replaced={"p0": ("a-0", "f-0"), "p1": ("f-0",)})
    assert metadata.groups() == {("p0", "f-0"), ("", "f-0"), ("p0", "a-0"), ("p1", "f-0")}
    assert CommitMetadata("UPSERT", False, ()).groups() == frozenset()


def test_an_empty_file_is_empty_metadata() -> None:
    assert decode_commit_metadata(b"", "x") == CommitMetadata("", False, (), {})


def test_a_profile_of_files_not_yet_written_names_no_paths() -> None:
    stats = {"p0": [{"fileId": "", "prevCommit": "null", "numInserts": 14}]}
    data = _encode({"partitionToWriteStats": stats, "operationType": "UPSERT"})
    metadata = decode_commit_metadata(data, "x")
    assert metadata.stats == (WriteStat("", "", "p0", None, 0, 0, 14, 0, 0),)
    assert metadata.paths() == frozenset()


def test_change_logs_are_among_the_paths_and_cannot_be_written() -> None:
    stat = {"fileId": "f-0", "path": "p0/f-0_0-0-0_1.parquet", "cdcStats": {"p0/.f.cdc": 7}}
    data = _encode({"partitionToWriteStats": {"p0": [stat]}})
    metadata = decode_commit_metadata(data, "x")
    assert metadata.cdc_files == ("p0/.f.cdc",)
    assert metadata.paths() == {"p0/f-0_0-0-0_1.parquet", "p0/.f.cdc"}
    with pytest.raises(UnsupportedFormat):
        encode_commit_metadata(metadata)


def test_paths_join_log_files_with_their_partition() -> None:
    older = f".f-0_{T}.log.1_0-0-0"
    log = replace(LOG, partition="p1", path=f"p1/{LOG_NAME}", log_files=(older, LOG_NAME))
    assert replace(COMMIT, stats=(log,)).paths() == {f"p1/{older}", f"p1/{LOG_NAME}"}


@pytest.mark.parametrize(
    "stat",
    [
        {"path": "/etc/passwd"},
        {"path": "p0/../../x"},
        {"path": "p1/f.parquet"},
        {"path": "p0/f.parquet", "numWrites": -1},
        {"path": "p0/f.parquet", "prevCommit": "yesterday"},
        {"path": "p0/f.parquet", "cdcStats": {"../x": 1}},
        {"path": f"p0/{LOG_NAME}", "logFiles": ["../x"]},
        {"path": "p0/f.parquet", "prevBaseFile": "../x"},
    ],
)
def test_a_stat_that_points_elsewhere_is_corrupt(stat: dict[str, Any]) -> None:
    with pytest.raises(Corrupt):
        decode_commit_metadata(_encode({"partitionToWriteStats": {"p0": [stat]}}), "x")


def test_a_stat_that_points_into_the_hoodie_folder_is_corrupt() -> None:
    stat = {"path": ".hoodie/hoodie.properties"}
    with pytest.raises(Corrupt, match="data file"):
        decode_commit_metadata(_encode({"partitionToWriteStats": {".hoodie": [stat]}}), "x")


def test_another_record_in_a_commits_place_is_corrupt() -> None:
    data = encode_container("HoodieCompactionPlan", {"operations": [], "extraMetadata": {}})
    for other in (data, b"{}"):
        with pytest.raises(Corrupt):
            decode_commit_metadata(other, "x")


def _encode(record: dict[str, Any]) -> bytes:
    return encode_container("HoodieCommitMetadata", record)


STATS = st.builds(
    WriteStat,
    file_id=st.text(max_size=9),
    path=st.sampled_from(["", "a b/ü=1/f-0_0-0-0_1.parquet", "a b/ü=1/.f-0_1.log.1_0-0-0"]),
    partition=st.just("a b/ü=1"),
    prev_commit=st.none() | st.just(T),
    writes=st.integers(0, 2**62),
    updates=st.integers(0, 9),
    inserts=st.integers(0, 9),
    deletes=st.integers(0, 9),
    size=st.integers(0, 2**62),
    base_file=st.none() | st.just("") | st.just("f.parquet"),
    log_files=st.just(()) | st.just((LOG_NAME,)),
    log_version=st.none() | st.integers(0, 9),
)


@given(STATS)
def test_stats_round_trip_through_json(stat: WriteStat) -> None:
    text = json.dumps(stat.to_json())
    back = WriteStat.from_json(json.loads(text))
    assert back == stat
    assert back.prev_commit is None or isinstance(back.prev_commit, RequestedAt)


@pytest.mark.parametrize("name", BASE.to_json())
def test_a_json_stat_without_a_field_or_with_a_wrong_one_is_corrupt(name: str) -> None:
    values = BASE.to_json()
    without = {key: value for key, value in values.items() if key != name}
    wrong: object = "1" if isinstance(values[name], int) or name == "log_version" else 1
    for bad in (without, values | {name: wrong}, values | {name: 1.5}, values | {name: [None]}):
        with pytest.raises(Corrupt) as caught:
            WriteStat.from_json(bad, "marker")
        assert caught.value.where == "marker"


@pytest.mark.parametrize(
    "bad",
    [
        None,
        [],
        "x",
        BASE.to_json() | {"more": 1},
        BASE.to_json() | {"path": "../x"},
        BASE.to_json() | {"size": -1},
        BASE.to_json() | {"size": True},
        BASE.to_json() | {"file_id": None},
        BASE.to_json() | {"partition": "p1"},
        BASE.to_json() | {"log_files": ["a/b"]},
    ],
)
def test_json_that_is_no_stat_is_corrupt(bad: object) -> None:
    with pytest.raises(Corrupt):
        WriteStat.from_json(bad)
