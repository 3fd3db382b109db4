"""Partition paths follow the format's rules, and none of them is unsafe to create."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import InvalidRecord, SchemaMismatch
from lentic.format.partition_paths import ensure_safe_partition, partition_paths
from tests.rfc.claims import says


def paths(
    values: dict[str, object], *, hive_style: bool = False, url_encode: bool = False
) -> list[str]:
    table = pa.table(values)
    found = partition_paths(table, tuple(values), hive_style=hive_style, url_encode=url_encode)
    assert found.type == pa.string()
    return list(found.to_pylist())


def test_no_fields_means_the_empty_path_for_every_row() -> None:
    found = partition_paths(pa.table({"a": [1, 2]}), (), hive_style=True, url_encode=True)
    assert found.to_pylist() == ["", ""]


def test_values_are_joined_by_slashes() -> None:
    assert paths({"a": ["x", "y"], "b": pa.array([1, 2])}) == ["x/1", "y/2"]


def test_hive_style_names_the_field() -> None:
    assert paths({"a": ["x"], "b": [2]}, hive_style=True) == ["a=x/b=2"]


@pytest.mark.parametrize("hive_style", [False, True])
def test_null_and_empty_values_get_the_default_folder(hive_style: bool) -> None:
    prefix = "p=" if hive_style else ""
    expected = [prefix + "__HIVE_DEFAULT_PARTITION__"] * 2 + [prefix + "x"]
    assert paths({"p": [None, "", "x"]}, hive_style=hive_style) == expected


def test_url_encoding_escapes_exactly_javas_characters() -> None:
    value = "a/b c:%=ü?\"#'*[]{}^\\"
    encoded = "a%2Fb c%3A%25%3Dü%3F%22%23%27%2A%5B%5D%7B}%5E%5C"
    assert paths({"p": [value]}, url_encode=True) == [encoded]
    assert paths({"p": ["\x00\x01\x1f\x7f😀"]}, url_encode=True) == ["%00%01%1F%7F😀"]


def test_paths_of_a_table_written_by_apache_hudi() -> None:
    values = {"part": ["p=1", "ü%", "p 0"], "i16s": ["a/b c:0", None, "a/b c:1"]}
    assert paths(values, hive_style=True, url_encode=True) == [
        "part=p%3D1/i16s=a%2Fb c%3A0",
        "part=ü%25/i16s=__HIVE_DEFAULT_PARTITION__",
        "part=p 0/i16s=a%2Fb c%3A1",
    ]


def test_values_of_other_types_use_their_text_form() -> None:
    values = {"d": [date(2024, 2, 3)], "f": [1e10], "b": [True]}
    assert paths(values) == ["2024-02-03/1.0E10/true"]


def test_without_encoding_a_slash_makes_nested_folders() -> None:
    assert paths({"p": ["2024/01/01"]}) == ["2024/01/01"]


def test_no_rows_give_no_paths() -> None:
    assert paths({"p": pa.array([], pa.string()), "q": pa.array([], pa.int64())}) == []


def test_chunked_columns_line_up() -> None:
    left = pa.chunked_array([["a"], ["b", "a"]])
    right = pa.chunked_array([["x", None], ["x"]])
    assert paths({"l": left, "r": right}) == ["a/x", "b/__HIVE_DEFAULT_PARTITION__", "a/x"]


def test_a_nested_column_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="Column p of type list"):
        paths({"p": [[1]]})


UNSAFE = [
    "..",
    ".",
    "../x",
    "a/../b",
    "a//b",
    "/a",
    "a/",
    ".hoodie",
    ".hoodie_partition_metadata",
    ".Hoodie",
    "a/.hoodie/timeline",
    "a\\b",
    "a\x00b",
    "a\nb",
    "a\x7fb",
    "a\x85b",
    "a.",
    "a ",
    " ",
    "x" * 256,
    "ü" * 128,
]


@says("P24")
@pytest.mark.parametrize("path", ["", *UNSAFE])
def test_an_unsafe_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidRecord, match="no safe folder name"):
        ensure_safe_partition(path)


@says("P24")
@pytest.mark.parametrize("value", UNSAFE)
def test_an_unsafe_value_is_refused_naming_column_and_row(value: str) -> None:
    with pytest.raises(InvalidRecord, match=r"Column p of row 1 ") as caught:
        paths({"ok": ["a", "a"], "p": ["x", value]})
    assert "Nothing was written." in str(caught.value)
    assert "hoodie.datasource.write.partitionpath.urlencode=true" in str(caught.value)


@pytest.mark.parametrize("value", ["..", ".", ".hoodie", "a.", "a ", "x" * 256])
def test_encoding_does_not_make_these_values_safe(value: str) -> None:
    with pytest.raises(InvalidRecord):
        paths({"p": [value]}, url_encode=True)


@pytest.mark.parametrize(
    "path", ["a", "a/b", "p=.x", "a b", "...x", "x" * 255, "日本/ü", ".hidden"]
)
def test_a_safe_path_is_returned_as_it_is(path: str) -> None:
    assert ensure_safe_partition(path) == path


@given(
    rows=st.lists(
        st.tuples(st.none() | st.text(max_size=5), st.none() | st.integers(0, 3)), min_size=1
    ),
    hive_style=st.booleans(),
    url_encode=st.booleans(),
)
def test_every_path_is_the_one_of_its_row_and_safe(
    rows: list[tuple[str | None, int | None]], hive_style: bool, url_encode: bool
) -> None:
    values = {"s": pa.array([s for s, _ in rows]), "n": pa.array([n for _, n in rows], pa.int64())}
    try:
        found = paths(values, hive_style=hive_style, url_encode=url_encode)
    except InvalidRecord:
        return
    escaped = {ord(c): f"%{ord(c):02X}" for c in "\"#%'*/:=?\\{[]^\x7f" + bytes(range(32)).decode()}
    for (text, number), path in zip(rows, found, strict=True):
        first = text or "__HIVE_DEFAULT_PARTITION__"
        first = first.translate(escaped) if url_encode else first
        second = "__HIVE_DEFAULT_PARTITION__" if number is None else str(number)
        expected = f"s={first}/n={second}" if hive_style else f"{first}/{second}"
        assert path == expected == ensure_safe_partition(path)
