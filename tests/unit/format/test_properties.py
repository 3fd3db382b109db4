"""Java properties files and the table checksum."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import ConfigError, Corrupt
from lentic.format.properties import decode_properties, encode_properties, table_checksum


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=b", {"a": "b"}),
        ("a:b\n", {"a": "b"}),
        ("a b=c\n", {"a": "b=c"}),
        ("a = : b", {"a": ": b"}),
        ("  a\t=\fb  \r\nc=d\r", {"a": "b  ", "c": "d"}),
        ("#x=1\n!y=2\n  # z\n\n \na=b", {"a": "b"}),
        ("#not continued\\\na=b", {"a": "b"}),
        ("a=b\\\n   c\\\r\n\td", {"a": "bcd"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\\\\\nc=d", {"a": "b\\c=d"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("\\\n#a=b", {"#a": "b"}),
        ("\\\n\na=b", {"a": "b"}),
        (r"a\ b\=\:c=d\#\!", {"a b=:c": "d#!"}),
        (r"a=\t\n\r\f\q\u00e4\u20AC\uD83D\uDE00", {"a": "\t\n\r\fqä€\U0001f600"}),
        ("key", {"key": ""}),
        ("=v", {"": "v"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=\xe4", {"a": "ä"}),
        ("", {}),
    ],
)
def test_text_that_java_accepts_decodes_to_what_java_reads(
    text: str, values: dict[str, str]
) -> None:
    assert decode_properties(text.encode("iso-8859-1"), "x") == values


@pytest.mark.parametrize("escape", [r"\u12", r"\uZZZZ", r"\uD83D", r"\uDE00x"])
def test_a_broken_unicode_escape_is_corrupt_and_names_its_offset(escape: str) -> None:
    with pytest.raises(Corrupt) as caught:
        decode_properties(f"a=1\nb={escape}\n".encode(), "some.properties")
    assert caught.value.where == "some.properties@4"


def test_values_are_escaped_as_java_does() -> None:
    values = {"k y": " lead in", "url": "s3://b#c!", "ü": "a=\\\n\U0001f600", "A": ""}
    assert encode_properties(values, "two\nlines") == (
        b"#two\n#lines\n"
        b"A=\n"
        b"k\\ y=\\ lead in\n"
        b"url=s3\\://b\\#c\\!\n"
        b"\\u00FC=a\\=\\\\\\n\\uD83D\\uDE00\n"
    )


@given(st.dictionaries(st.text(), st.text()), st.text())
def test_properties_round_trip(values: dict[str, str], comment: str) -> None:
    assert decode_properties(encode_properties(values, comment), "x") == values


@given(st.text("a= :\\#!\n\r\tu0", max_size=12), st.text("a= :\\#!\n\r\tu0", max_size=12))
def test_awkward_properties_round_trip(key: str, value: str) -> None:
    assert decode_properties(encode_properties({key: value}, ""), "x") == {key: value}


@given(st.binary(max_size=80))
def test_any_bytes_decode_or_are_corrupt(data: bytes) -> None:
    with contextlib.suppress(Corrupt):
        decode_properties(data, "x")


def test_half_a_surrogate_pair_cannot_be_written() -> None:
    with pytest.raises(ConfigError):
        encode_properties({"a": "\ud83d"}, "")


def test_the_checksum_is_the_one_hudi_computes() -> None:
    assert table_checksum("", "cow_np_v8") == 1905681975
    assert table_checksum("default", "cow_np_v8") == 2909335437
