"""How the names in an expression find their columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lentic.errors import SchemaMismatch
from lentic.query.expression import Scope, evaluate, parse_expression

SCOPE = Scope(
    {
        "source": {"id": "s0", "amount": "s1", "note": "s2"},
        "target": {"id": "t0", "amount": "t1", "total": "t2"},
    }
)


def test_a_scope_leads_names_to_columns() -> None:
    assert SCOPE.resolve("source", "amount") == "s1"
    assert SCOPE.resolve("target", "amount") == "t1"
    assert SCOPE.resolve(None, "note") == "s2"
    merged = pa.table({"s1": [1], "t1": [2]})
    expression = parse_expression("target.amount + source.amount")
    assert evaluate(expression, merged, SCOPE.resolve).to_pylist() == [3]


@pytest.mark.parametrize(
    ("qualifier", "name", "words"),
    [
        ("source", "amuont", ["no column amuont in source", "did you mean amount?"]),
        ("source", "total", ["no column total in source"]),
        (None, "noet", ["no column noet in source or target", "note"]),
        (None, "amount", ["in source and in target", "write source.amount or target.amount"]),
    ],
)
def test_a_name_that_leads_nowhere_or_to_two_columns_is_refused(
    qualifier: str | None, name: str, words: list[str]
) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        SCOPE.resolve(qualifier, name)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_a_side_that_is_not_there_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="no target row here"):
        Scope({"source": {"id": "id"}}).resolve("target", "id")
