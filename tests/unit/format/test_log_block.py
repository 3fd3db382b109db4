"""Log block framing: round trips, and no damage to it goes unnoticed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import Corrupt
from lentic.format.log_block import Block, BlockKind, Header, decode_blocks, encode_block
from tests.rfc.claims import says

INSTANT = "20250101120000000"
WHERE = "p0/.f-0_1.log.1_0-0-0"

# An empty delete block, byte for byte as Apache Hudi 1.2.0 wrote it.
REAL_DELETE = bytes.fromhex(
    "2348554449230000000000000042000000010000000100000001000000000000001130303030303030303030"
    "303030303030310000000000000009000000030000000100000000000000000000000048"
)


def block(kind: BlockKind, content: bytes, **headers: str) -> bytes:
    named = {Header[name]: value for name, value in headers.items()}
    return encode_block(kind, {Header.INSTANT_TIME: INSTANT, **named}, content)


FOUR = [
    block(BlockKind.AVRO, b"avro content", SCHEMA='{"type":"record"}'),
    block(BlockKind.DELETE, b"", COMPACTED_BLOCK_TIMES="1,2"),
    block(BlockKind.PARQUET, b"PAR1", SCHEMA="ü", IS_PARTIAL="true"),
    block(BlockKind.COMMAND, b"", TARGET_INSTANT_TIME=INSTANT, COMMAND_BLOCK_TYPE="0"),
]
FILE = b"".join(FOUR)
STARTS = [sum(map(len, FOUR[:number])) for number in range(5)]


def decode(data: bytes) -> list[Block]:
    return list(decode_blocks(data, WHERE))


def framing_offsets() -> list[int]:
    """Every byte of FILE that is framing: all but the text of headers and the content."""
    free: set[int] = set()
    for start in STARTS[:4]:
        at = start + 22
        (count,) = struct.unpack_from(">i", FILE, at)
        at += 4
        for _ in range(count):
            (length,) = struct.unpack_from(">i", FILE, at + 4)
            free.update(range(at + 8, at + 8 + length))
            at += 8 + length
        (size,) = struct.unpack_from(">q", FILE, at)
        free.update(range(at + 8, at + 8 + size))
    return [offset for offset in range(len(FILE)) if offset not in free]


def ordinal_offsets() -> set[int]:
    """The last bytes of block kinds and header keys, which another legal one can take."""
    found: set[int] = set()
    for start in STARTS[:4]:
        found.add(start + 21)
        at = start + 26
        for _ in range(struct.unpack_from(">i", FILE, start + 22)[0]):
            found.add(at + 3)
            at += 8 + struct.unpack_from(">i", FILE, at + 4)[0]
    return found


def test_a_block_has_exactly_the_documented_bytes() -> None:
    made = encode_block(BlockKind.DELETE, {Header.INSTANT_TIME: "7"}, b"xy")
    assert made == (
        b"#HUDI#"
        + struct.pack(">qii", 4 + 4 + 4 + 8 + 1 + 8 + 2 + 4 + 8, 1, 1)
        + struct.pack(">iii", 1, 0, 1)
        + b"7"
        + struct.pack(">q", 2)
        + b"xy"
        + struct.pack(">iq", 0, 43 + 6)
    )


@says("rfc66.format.block")
def test_a_block_by_apache_hudi_decodes_and_encodes_to_the_same_bytes() -> None:
    (found,) = decode(REAL_DELETE)
    assert found.kind is BlockKind.DELETE
    assert found.headers == {Header.INSTANT_TIME: "00000000000000001"}
    assert bytes(found.content) == bytes([0, 0, 0, 3, 0, 0, 0, 1, 0])
    assert encode_block(found.kind, found.headers, found.content) == REAL_DELETE


def test_an_empty_file_has_no_blocks() -> None:
    assert decode(b"") == []


def test_blocks_come_in_file_order_with_their_offsets() -> None:
    found = decode(FILE)
    assert [one.offset for one in found] == STARTS[:4]
    assert [one.kind for one in found] == [
        BlockKind.AVRO,
        BlockKind.DELETE,
        BlockKind.PARQUET,
        BlockKind.COMMAND,
    ]
    assert found[2].headers[Header.SCHEMA] == "ü"
    assert bytes(found[0].content) == b"avro content"


def test_contents_are_read_only_views_of_the_file() -> None:
    data = bytearray(FILE)
    first = decode_blocks(data, WHERE)
    content = next(first).content
    assert isinstance(content, memoryview)
    assert content.obj is data
    assert content.readonly


@given(
    kind=st.sampled_from([kind for kind in BlockKind if kind is not BlockKind.CORRUPT]),
    headers=st.dictionaries(st.sampled_from(Header), st.text(max_size=20)),
    content=st.binary(max_size=100),
    before=st.integers(0, 2),
)
def test_blocks_round_trip(
    kind: BlockKind, headers: dict[Header, str], content: bytes, before: int
) -> None:
    headers = {Header.INSTANT_TIME: "1", Header.SCHEMA: "{}", **headers}
    found = decode(FOUR[0] * before + encode_block(kind, headers, content))[before]
    assert found == Block(kind, headers, content, before * len(FOUR[0]))


def outcome(data: bytes) -> list[Block] | None:
    """The blocks, or None for corrupt; any other error fails the test."""
    try:
        return decode(data)
    except Corrupt:
        return None


def test_a_file_cut_at_any_byte_yields_whole_blocks_and_then_is_corrupt() -> None:
    for cut in range(len(FILE)):
        found: list[Block] = []
        if cut in STARTS:
            found = decode(FILE[:cut])
        else:
            with pytest.raises(Corrupt) as caught:
                found.extend(decode_blocks(FILE[:cut], WHERE))
            begun = max(start for start in STARTS if start < cut)
            assert caught.value.where == f"{WHERE}@{begun}"
        assert found == decode(FILE)[: len(found)]


@says("P13")
def test_no_flipped_framing_byte_goes_unnoticed() -> None:
    for offset in framing_offsets():
        damaged = bytearray(FILE)
        damaged[offset] ^= 0xFF
        assert outcome(bytes(damaged)) is None, offset


def test_no_flipped_framing_bit_goes_unnoticed() -> None:
    # One legal ordinal in place of another cannot be told from the truth; all else can.
    for offset in sorted(set(framing_offsets()) - ordinal_offsets()):
        for bit in range(8):
            damaged = bytearray(FILE)
            damaged[offset] ^= 1 << bit
            assert outcome(bytes(damaged)) is None, (offset, bit)


@given(st.lists(st.tuples(st.integers(0, len(FILE) - 1), st.integers(0, 255)), max_size=6))
def test_any_damage_is_corrupt_or_decodes_never_anything_else(
    changes: list[tuple[int, int]],
) -> None:
    damaged = bytearray(FILE)
    for offset, value in changes:
        damaged[offset] = value
    outcome(bytes(damaged))


@given(st.binary(max_size=80))
def test_bytes_after_the_last_block_are_corrupt(extra: bytes) -> None:
    if extra:
        with pytest.raises(Corrupt) as caught:
            decode(FILE + extra)
        assert caught.value.where == f"{WHERE}@{len(FILE)}"


def frame(inner: bytes, *, version: int = 1, kind: int = 1, tail: bytes | None = None) -> bytes:
    end = struct.pack(">i", 0) if tail is None else tail
    size = 8 + len(inner) + len(end) + 8
    head = b"#HUDI#" + struct.pack(">qii", size, version, kind)
    return head + inner + end + struct.pack(">q", size + 6)


ENTRY = struct.pack(">ii", 0, 1) + b"7"
EMPTY = struct.pack(">q", 0)


def test_a_well_formed_frame_decodes() -> None:
    assert len(decode(frame(struct.pack(">i", 1) + ENTRY + EMPTY))) == 1


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"#HUDI", "torn"),
        (b"#HUDJ#" + FILE[6:], "begins here"),
        (frame(struct.pack(">i", 1) + ENTRY + EMPTY, version=2), "version 2"),
        (frame(struct.pack(">i", 1) + ENTRY + EMPTY, kind=7), "kind 7"),
        (frame(struct.pack(">i", 1) + ENTRY + EMPTY, kind=2), "kind 2"),
        (frame(struct.pack(">i", 1) + ENTRY + EMPTY, kind=-1), "kind -1"),
        (frame(struct.pack(">i", 1) + ENTRY + EMPTY, kind=3), "no header SCHEMA"),
        (frame(struct.pack(">i", 0) + EMPTY), "no header INSTANT_TIME"),
        (frame(struct.pack(">i", -1) + ENTRY + EMPTY), "-1 entries"),
        (frame(struct.pack(">i", 2**31 - 1) + ENTRY + EMPTY), "entries"),
        (frame(struct.pack(">i", 2) + ENTRY + ENTRY + EMPTY), "twice"),
        (frame(struct.pack(">iii", 1, 9, 0) + EMPTY), "key 9"),
        (frame(struct.pack(">iii", 1, 0, -1) + EMPTY), "-1 bytes"),
        (frame(struct.pack(">iii", 1, 0, 2**31 - 1) + EMPTY), "bytes"),
        (frame(struct.pack(">iii", 1, 0, 1) + b"\xff" + EMPTY), "utf-8"),
        (frame(struct.pack(">i", 1) + ENTRY + struct.pack(">q", 1)), "declares 1"),
        (frame(struct.pack(">i", 1) + ENTRY + struct.pack(">q", -1)), "declares -1"),
        (frame(struct.pack(">i", 1) + ENTRY), "past the end"),
        (frame(b""), "past the end"),
        (frame(struct.pack(">i", 1) + ENTRY + EMPTY, tail=struct.pack(">i", 1)), "footer"),
        (b"#HUDI#" + struct.pack(">qii", -1, 1, 1), "torn"),
        (b"#HUDI#" + struct.pack(">qii", 2**63 - 1, 1, 1), "torn"),
        (b"#HUDI#" + struct.pack(">qii", 8, 1, 1), "past the end"),
    ],
)
def test_each_kind_of_damage_is_named(data: bytes, what: str) -> None:
    with pytest.raises(Corrupt, match=what) as caught:
        decode(data)
    assert caught.value.where == f"{WHERE}@0"
