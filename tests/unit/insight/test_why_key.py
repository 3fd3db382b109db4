"""Where a record lies, which versions of it there are, and why one of them won."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lentic.engine import LocalEngine
from lentic.errors import ConfigError
from lentic.insight.answers import Answer
from lentic.table import Table
from tests.unit.builders import rows
from tests.unit.insight.cases import Case, says, typed
from tests.unit.verbs import COW, MOR


def winner(answer: Answer) -> str:
    (won,) = [version.commit for version in answer.versions if version.won]
    return won


def test_in_buckets_the_hash_says_where_a_key_lies() -> None:
    case = Case(MOR, buckets=4)
    at = case.write("a")
    answer = case.why("a")
    (part,) = case.table.file_slices()
    assert answer.fact("bucket").endswith(" of 4")
    assert answer.fact("file group").startswith(str(part.group))
    assert (answer.fact("file groups looked into"), answer.fact("visible")) == ("1", "yes")
    assert winner(answer) == at and answer.has("only-version")
    assert typed(answer) == [f"t.why('{at}')"]


@pytest.mark.parametrize("kind", [COW, MOR])
def test_without_buckets_every_file_that_may_have_it_is_looked_into(kind: str) -> None:
    case = Case(kind)
    case.write("a", day="d")
    at = case.write("z", day="e")
    answer = case.why("z")
    assert answer.fact("file groups looked into") == "2"
    assert [version.partition for version in answer.versions] == ["e"]
    assert winner(answer) == at


def test_a_partition_narrows_the_search() -> None:
    case = Case()
    case.write("a", day="d")
    case.write("a", day="e")
    assert case.why("a").has("twice")
    answer = case.why("a", partition="e")
    assert answer.fact("file groups looked into") == "1"
    assert [version.partition for version in answer.versions] == ["e"]


def test_of_a_key_in_several_file_groups_what_holds_for_each_is_told() -> None:
    case = Case()
    both = rows(("a", 1, "d"), ("a", 2, "e"))
    at = case.table.bulk_insert(both).requested_at
    answer = case.why("a")
    groups = [str(part.group) for part in case.table.file_slices()]
    assert list(answer.every("file group")) == groups and len(set(groups)) == 2
    assert answer.fact("file group") == groups[0]
    facts = answer.to_json()["facts"]
    assert facts["file group"] == groups
    assert (facts["slice"], facts["visible"]) == ([at, at], ["yes", "yes"])
    assert facts["changed by"] == at, "what is told once stays a text"
    only = [reason.says for reason in answer.reasons if reason.code == "only-version"]
    says_it = f"the row of {at} is the only version in the latest slice"
    assert only == [f"in {group}: {says_it}" for group in groups]
    assert typed(answer) == [f"t.why('{at}')"], "once"
    assert says(case.why("a", partition="e"), "only-version") == says_it


def test_the_greatest_ordering_value_wins_and_a_late_row_changes_nothing() -> None:
    case = Case(MOR, buckets=1, ordering="v")
    case.write("a", value=1)
    case.table.compact()
    best = case.write("a", value=9)
    late = case.write("a", value=5)
    answer = case.why("a")
    assert [version.ordering for version in answer.versions] == [("1",), ("1",), ("9",), ("5",)]
    assert winner(answer) == best
    assert "v=9 is the greatest" in says(answer, "greatest")
    assert says(answer, "late") == f"{late} came later with v=5 and changed nothing"
    assert case.table.read().to_pylist()[0]["v"] == 9


def test_a_tie_goes_to_the_later_write() -> None:
    case = Case(MOR, buckets=1, ordering="v")
    case.write("a", value=1)
    at = case.write("a", value=1)
    answer = case.why("a")
    assert winner(answer) == at and "won the tie at v=1" in says(answer, "tie")


def test_without_ordering_the_write_that_completed_last_wins() -> None:
    case = Case(MOR, buckets=1)
    case.write("a", value=9)
    at = case.write("a", value=1)
    answer = case.why("a")
    assert winner(answer) == at and answer.has("last-write")


def test_a_delete_is_a_version_that_may_win() -> None:
    case = Case(MOR, buckets=1)
    case.write("a", "b")
    at = case.table.delete(rows(("a", None, "d")).select(["id", "day"])).requested_at
    answer = case.why("a")
    assert (winner(answer), answer.fact("visible")) == (at, "no")
    assert "wins over all that came before" in says(answer, "hard-delete")
    assert [version.kind for version in answer.versions] == ["log", "delete"]


def test_every_write_that_changed_it_is_listed_also_from_older_slices() -> None:
    case = Case()
    times = [case.write("a", value=n) for n in range(3)]
    answer = case.why("a")
    assert answer.fact("changed by") == ", ".join(times)
    assert [version.completed_at is not None for version in answer.versions] == [True] * 3
    assert winner(answer) == times[-1]


def test_partial_rows_are_told_to_be_joined() -> None:
    schema = pa.schema(
        [pa.field("id", pa.string(), nullable=False), ("x", pa.int64()), ("day", pa.string())]
    ).append(pa.field("y", pa.int64()))
    case = Case(MOR, buckets=1, schema=schema)
    case.table.upsert(pa.table([["a"], [1], ["d"], [1]], schema=schema))
    part = schema.remove(3)
    at = case.table.upsert(pa.table([["a"], [2], ["d"]], schema=part), partial=True).requested_at
    answer = case.why("a")
    assert at in says(answer, "joined")
    assert [version.is_partial for version in answer.versions] == [False, True]


def test_a_key_that_is_nowhere_says_where_it_would_be() -> None:
    case = Case(MOR, buckets=4)
    case.write("a")
    answer = case.why("nobody")
    assert "it would lie in bucket" in says(answer, "no-such-key")
    assert answer.versions == () and answer.fact("file group") == ""


def test_a_key_with_a_quote_or_of_digits_alone_is_found() -> None:
    case = Case()
    case.write("it's", "20260101000000000")
    assert case.why("it's").fact("visible") == "yes"
    assert case.why("20260101000000000", kind="key").fact("visible") == "yes"


def test_keys_that_files_do_not_keep_are_made_from_the_row() -> None:
    case = Case(MOR, buckets=2)
    case.write("a")
    case.table.compact()
    at = case.write("a", value=2)
    config = replace(case.opened.config, populate_meta_fields=False)
    case.table = Table(replace(case.opened, config=config), LocalEngine(threads=1))
    answer = case.why("a")
    assert answer.fact("visible") == "yes" and winner(answer) == at


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="no key"):
        Case().table.why("")
