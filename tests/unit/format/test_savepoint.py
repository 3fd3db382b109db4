"""What a savepoint holds, both ways."""

from __future__ import annotations

import pytest

from lentic.errors import Corrupt
from lentic.format.avro import encode_container
from lentic.format.savepoint import SavepointMetadata, decode_savepoint, encode_savepoint

T = "20261115095007623"
METADATA = SavepointMetadata(
    (f"f-1_0-0-0_{T}.parquet", f"p0/f-0_0-0-0_{T}.parquet", f"p0/.f-0_{T}.log.1_0-0-0"),
    by="a",
    comment="before the migration",
    made_ms=1794736208968,
)


@pytest.mark.parametrize("metadata", [METADATA, SavepointMetadata(())])
def test_a_savepoint_comes_back_as_it_was(metadata: SavepointMetadata) -> None:
    assert decode_savepoint(encode_savepoint(metadata), "x") == metadata


def test_an_empty_savepoint_file_is_corrupt_not_a_savepoint_of_nothing() -> None:
    with pytest.raises(Corrupt):
        decode_savepoint(b"", "x")


@pytest.mark.parametrize(
    ("partition", "name"), [("..", "a.parquet"), ("p", "../a"), (".hoodie", "x"), ("p", "")]
)
def test_a_savepoint_cannot_name_what_is_no_data_file(partition: str, name: str) -> None:
    record = {
        "savepointedBy": "",
        "savepointedAt": 0,
        "comments": "",
        "partitionMetadata": {partition: {"partitionPath": partition, "savepointDataFile": [name]}},
        "version": 1,
    }
    with pytest.raises(Corrupt):
        decode_savepoint(encode_container("HoodieSavepointMetadata", record), "x")
