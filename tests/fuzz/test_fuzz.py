"""Whatever happens to its files, a table answers exactly or with an error of ours.

Short figures by default; `LENTIC_FUZZ=full` for the full ones, `LENTIC_FUZZ_SEED` for other cases.
The figures are printed at the end, those of each group with `-rA`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fuzz.case import is_full
from tests.fuzz.child import KINDS
from tests.fuzz.excuses import REASONS
from tests.fuzz.runner import Tally, is_excused, is_failure

GROUPS = [(name, group) for name, kind in KINDS.items() for group in kind.groups]
_SHOWN = 12

Fuzzed = Callable[[str], Tally]


@pytest.mark.parametrize(("kind", "group"), GROUPS)
def test_damage_gives_the_exact_answer_or_an_error_that_names_the_file(
    kind: str, group: str, fuzzed: Fuzzed
) -> None:
    tally = fuzzed(kind)
    print(tally.line(group))
    assert tally.of(group), "no case ran"
    failures = [verdict for verdict in tally.of(group) if is_failure(verdict)]
    shown = [f"{v.number} {v.note} -> {v.outcome}: {v.detail}" for v in failures[:_SHOWN]]
    assert not failures, "\n".join([f"{len(failures)} of {len(tally.of(group))}:", *shown])


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_cases_run_as_the_figures_say(kind: str, fuzzed: Fuzzed) -> None:
    tally = fuzzed(kind)
    least = KINDS[kind].least_full if is_full() else KINDS[kind].least
    assert len(tally.verdicts) >= least
    assert {verdict.group for verdict in tally.verdicts} == set(KINDS[kind].groups)


@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_can_notice_is_of_a_named_class(kind: str, fuzzed: Fuzzed) -> None:
    excused = [verdict for verdict in fuzzed(kind).verdicts if is_excused(verdict)]
    print(*(f"{v.excuse}: {v.note} -> {v.detail}" for v in excused), sep="\n")
    assert {verdict.excuse for verdict in excused} <= REASONS.keys()
