"""Options: old names are read, contradictions refused, unknown keys named with their neighbour."""

from __future__ import annotations

import warnings
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.config.options import (
    STORAGE_PREFIX,
    Option,
    Settings,
    UnknownOption,
    contradiction,
    format_value,
    parse_bool,
    parse_choice,
    parse_names,
    parse_whole,
    resolve,
)
from lentic.errors import ConfigError


class Colour(StrEnum):
    RED = "red"
    DARK_BLUE = "Dark_Blue"


WAIT = Option("hoodie.wait_ms", parse_whole(0, 100), 7, "doc", aliases=("old.wait", "older.wait"))
COLOUR = Option("lentic.colour", parse_choice(Colour), Colour.RED, "doc")
FLAG = Option("lentic.flag", parse_bool, False, "doc")
KNOWN: tuple[Option[Any], ...] = (WAIT, COLOUR, FLAG)


@pytest.mark.parametrize("name", ["hoodie.wait_ms", "old.wait", "older.wait"])
def test_every_name_of_an_option_sets_it(name: str) -> None:
    assert WAIT.of(resolve({name: 5}, KNOWN)) == 5


def test_an_absent_option_has_its_default() -> None:
    nothing = resolve({}, KNOWN)
    assert nothing == {}
    assert (WAIT.of(nothing), COLOUR.of(nothing), FLAG.of(nothing)) == (7, Colour.RED, False)


def test_two_names_may_say_the_same_thing() -> None:
    assert WAIT.of(resolve({"old.wait": 5, "hoodie.wait_ms": "5"}, KNOWN)) == 5


@pytest.mark.parametrize("first", ["hoodie.wait_ms", "old.wait"])
def test_two_names_with_two_values_are_refused_and_both_named(first: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({first: 5, "older.wait": 6}, KNOWN)
    said = str(caught.value)
    assert f"{first}=5" in said
    assert "older.wait=6" in said
    assert "nothing was written" in said
    assert first in caught.value.next_step
    assert "older.wait" in caught.value.next_step


def test_a_contradiction_names_what_the_user_wrote() -> None:
    error = contradiction("key", ("a", "b"), "hoodie.table.recordkey.fields", ["c"])
    assert error.what == "key=a,b contradicts hoodie.table.recordkey.fields=c."


def test_an_unknown_key_warns_with_the_nearest_known_one_and_is_dropped() -> None:
    with pytest.warns(UnknownOption, match=r"hoodie\.wait\.ms .*Did you mean hoodie\.wait_ms\?"):
        settings = resolve({"hoodie.wait.ms": 5}, KNOWN)
    assert settings == {}


def test_the_nearest_key_may_be_an_old_name() -> None:
    with pytest.warns(UnknownOption, match=r"Did you mean older\.wait\?"):
        resolve({"older.waits": 5}, KNOWN)


def test_an_unknown_key_near_nothing_warns_without_a_guess() -> None:
    with pytest.warns(UnknownOption) as caught:
        resolve({"zzzz": 5}, KNOWN)
    assert str(caught[0].message) == "Option zzzz has no effect in lentic."


def test_known_keys_give_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve({"old.wait": 1, "lentic.colour": "red", f"{STORAGE_PREFIX}anything": "x"}, KNOWN)


def test_storage_keys_pass_as_they_are() -> None:
    key = f"{STORAGE_PREFIX}endpoint"
    assert resolve({key: "here"}, KNOWN) == {key: "here"}


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        (WAIT, "101", "between 0 and 100"),
        (WAIT, "-1", "between 0 and 100"),
        (WAIT, "many", "'many'"),
        (WAIT, "1.5", "'1.5'"),
        (WAIT, "", "''"),
        (COLOUR, "green", "red, Dark_Blue"),
        (FLAG, "yes", "true or false"),
    ],
)
def test_a_bad_value_names_key_value_reason_and_remedy(
    option: Option[Any], text: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        option.of(Settings({option.key: text}))
    assert option.key in caught.value.what
    assert repr(text) in caught.value.what
    assert reason in caught.value.what
    assert caught.value.safe == "nothing was written"
    assert option.key in caught.value.next_step
    assert format_value(option.default) in caught.value.next_step


def test_a_number_that_is_none_is_refused_in_words_of_ours() -> None:
    with pytest.raises(ConfigError) as caught:
        WAIT.of(Settings({WAIT.key: "many"}))
    assert "invalid literal" not in caught.value.what
    assert "whole number" in caught.value.what


@pytest.mark.parametrize("text", ["dark_blue", "DARK_BLUE", " Dark_Blue "])
def test_choices_are_read_in_any_case(text: str) -> None:
    assert parse_choice(Colour)(text) is Colour.DARK_BLUE


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("False", False), (" TRUE ", True), ("false", False)]
)
def test_flags_are_read_in_any_case(text: str, value: bool) -> None:
    assert parse_bool(text) is value


@pytest.mark.parametrize("text", ["", "0", "1", "yes", "truee", "none"])
def test_no_other_word_is_a_flag(text: str) -> None:
    with pytest.raises(ValueError, match="true or false"):
        parse_bool(text)


@pytest.mark.parametrize(
    ("text", "names"), [("", ()), (",", ()), ("a", ("a",)), (" a , b ,", ("a", "b"))]
)
def test_names_are_split_at_commas_and_trimmed(text: str, names: tuple[str, ...]) -> None:
    assert parse_names(text) == names


@given(st.integers(-200, 200))
def test_whole_numbers_are_taken_exactly_within_their_bounds(number: int) -> None:
    parse = parse_whole(-50, 100)
    if -50 <= number <= 100:
        assert parse(str(number)) == number
    else:
        with pytest.raises(ValueError, match="between -50 and 100"):
            parse(str(number))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (None, ""),
        (5, "5"),
        (1.5, "1.5"),
        ("x", "x"),
        (["a", 2], "a,2"),
        (("a",), "a"),
        ([], ""),
        (Colour.DARK_BLUE, "Dark_Blue"),
    ],
)
def test_values_are_written_as_users_write_them(value: object, text: str) -> None:
    assert format_value(value) == text


@given(
    st.dictionaries(st.sampled_from(["hoodie.wait_ms", "lentic.colour", "lentic.flag"]), st.text())
)
def test_resolving_twice_changes_nothing(given: dict[str, str]) -> None:
    once = resolve(given, KNOWN)
    assert resolve(once, KNOWN) == once == given
