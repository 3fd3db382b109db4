"""Errors say what, where, what is safe and what to type; they cross processes unchanged."""

from __future__ import annotations

import json
import pickle
import shlex

import pytest

from lentic import errors
from lentic.errors import (
    Conflict,
    Corrupt,
    LenticError,
    MissingFile,
    Refused,
    StorageError,
    Unavailable,
    from_fields,
    shell_command,
)


def _tree(root: type[LenticError]) -> list[type[LenticError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


KINDS = _tree(LenticError)


def test_the_tree_holds_every_error_of_the_module() -> None:
    defined = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    names = {kind.__name__ for kind in KINDS}
    assert names <= defined
    assert len(names) == len(KINDS), "two classes of one name would come back as one"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling_with_all_its_fields(kind: type[LenticError]) -> None:
    error = kind("It broke.", where="a/b@7", safe="all of it", next_step="lentic show <table>")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(error, protocol))
        assert type(copy) is kind
        assert copy.to_fields() == error.to_fields()
        assert str(copy) == str(error)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_survives_its_fields_as_json(kind: type[LenticError]) -> None:
    error = kind("Naïve \n {x}", where="w", safe="", next_step="n")
    copy = from_fields(json.loads(json.dumps(error.to_fields())))
    assert type(copy) is kind
    assert copy.to_fields() == error.to_fields()


@pytest.mark.parametrize("kind", ["os.system", "Exception", "KeyError", "", "LenticError"])
def test_no_class_outside_the_tree_comes_out_of_fields(kind: str) -> None:
    fields = {"kind": kind, "what": "w", "where": "", "safe": "", "next_step": ""}
    assert type(from_fields(fields)) is LenticError


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "It broke."),
        ({"where": "a@1"}, "It broke. [a@1]"),
        ({"safe": "reading"}, "It broke.\n  safe: reading"),
        ({"next_step": "wait"}, "It broke.\n  next: wait"),
        (
            {"where": "a@1", "safe": "reading", "next_step": "wait"},
            "It broke. [a@1]\n  safe: reading\n  next: wait",
        ),
    ],
)
def test_a_message_has_one_line_per_answer(fields: dict[str, str], message: str) -> None:
    assert str(LenticError("It broke.", **fields)) == message


def test_errors_are_named_for_what_the_caller_does_next() -> None:
    assert issubclass(MissingFile, StorageError)
    assert issubclass(StorageError, Unavailable)
    for kind in KINDS[1:]:
        roots = [root for root in LenticError.__subclasses__() if issubclass(kind, root)]
        assert len(roots) == 1, kind
    assert not issubclass(Corrupt, (Refused, Conflict, Unavailable))


def test_a_command_can_be_typed_as_it_stands() -> None:
    assert shell_command("plans", "s3://lake/t") == "lentic plans s3://lake/t"
    typed = shell_command("rollback", "my lake/o'clock $x", "1")
    assert shlex.split(typed) == ["lentic", "rollback", "my lake/o'clock $x", "1"]
