"""The text that Prometheus reads."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.runner.exposition import Family, Sample, format_metrics

AGE = Family("lentic_plan_age_seconds", "gauge", "Age of a pending plan.")
COUNT = Family("lentic_actions_total", "counter", "Actions.")


def test_each_family_has_its_help_and_type_once_before_its_samples() -> None:
    text = format_metrics(
        [
            Sample(AGE, (("table", "b"),), 2.5),
            Sample(COUNT, (), 3),
            Sample(AGE, (("table", "a"),), 1),
        ]
    )
    assert text == (
        "# HELP lentic_actions_total Actions.\n"
        "# TYPE lentic_actions_total counter\n"
        "lentic_actions_total 3\n"
        "# HELP lentic_plan_age_seconds Age of a pending plan.\n"
        "# TYPE lentic_plan_age_seconds gauge\n"
        'lentic_plan_age_seconds{table="a"} 1\n'
        'lentic_plan_age_seconds{table="b"} 2.5\n'
    )


def test_nothing_is_an_empty_text() -> None:
    assert format_metrics([]) == ""


def test_values_that_would_break_a_line_are_escaped() -> None:
    text = format_metrics([Sample(AGE, (("table", 'a"b\\c\nd'),), 1)])
    assert 'table="a\\"b\\\\c\\nd"' in text
    doc = format_metrics([Sample(Family("a", "gauge", "one\ntwo\\"), (), 1)])
    assert doc.splitlines()[0] == "# HELP a one\\ntwo\\\\"


@given(st.text())
def test_any_label_value_comes_back_from_its_line(value: str) -> None:
    line = format_metrics([Sample(AGE, (("table", value),), 1)]).split("\n")[2]
    found = re.fullmatch(r'lentic_plan_age_seconds\{table="((?:[^"\\]|\\.)*)"\} 1', line, re.DOTALL)
    assert found is not None
    back = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), found[1], flags=re.DOTALL)
    assert back == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (20261118091415287, "20261118091415287"),
        (0.25, "0.25"),
        (-1.0, "-1"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_so_that_they_read_back(value: float, text: str) -> None:
    assert format_metrics([Sample(COUNT, (), value)]).splitlines()[2] == f"{COUNT.name} {text}"


def test_a_name_that_prometheus_would_refuse_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Family("lentic.plan", "gauge", "")
