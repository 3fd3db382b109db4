"""Delete blocks by Apache Hudi, decoded and encoded again, have the same deletes and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from lentic.format.log_block import Block, BlockKind, decode_blocks
from lentic.format.log_deletes import decode_delete_payload, encode_delete_payload


def _delete_blocks(golden: Path) -> Iterator[tuple[str, Block]]:
    """Those in the logs of data; logs of the metadata table hold other kinds of content."""
    for path in sorted(golden.rglob(".*.log.*")):
        name = path.relative_to(golden).as_posix()
        if "/.hoodie/" in name or path.suffix in (".crc", ".cdc"):
            continue
        for block in decode_blocks(path.read_bytes(), name):
            if block.kind is BlockKind.DELETE:
                yield name, block


def test_hudis_delete_blocks_encode_again_to_the_same_bytes(golden: Path) -> None:
    tables = set()
    for name, block in _delete_blocks(golden):
        found = decode_delete_payload(block.content, name)
        (partition,) = {record.partition for record in found}
        assert all(record.ordering is None for record in found)
        content = encode_delete_payload(pa.array([record.key for record in found]), partition, None)
        assert decode_delete_payload(content, name) == found
        assert content == block.content
        tables.add(name.partition("/")[0])
    assert len(tables) >= 8
