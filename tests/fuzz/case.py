"""One damaged table, one question to it, and the verdict on the answer.

A table is a mapping of paths to bytes. A case changes some of them and asks. The answer must be the
one of the undamaged table, or an error of ours that names the file. Whatever else happens is a
finding: a wrong answer, an error of somebody else's, too much memory, too much time, a crash.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

import lentic
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage

ROOT = "memory://fuzz"
Files = Mapping[str, bytes]
Ask = Callable[[Storage], Any]


def is_full() -> bool:
    """Whether the full figures are wanted (`LENTIC_FUZZ=full`), not the short ones."""
    return os.environ.get("LENTIC_FUZZ", "") == "full"


def seed() -> str:
    """What all chance depends on; another one by `LENTIC_FUZZ_SEED`."""
    return os.environ.get("LENTIC_FUZZ_SEED", "0")


class Outcome(StrEnum):
    """How far a case has come, or what came of it: only exact and refused are right."""

    BEGUN = "begun"
    EXACT = "exact"
    REFUSED = "refused"
    WRONG = "wrong"
    UNNAMED = "unnamed"
    UNTYPED = "untyped"
    GREEDY = "greedy"
    HUNG = "hung"
    DIED = "died"


RIGHT = frozenset({Outcome.EXACT, Outcome.REFUSED})


@dataclass(frozen=True, slots=True)
class Case:
    """One damage: `changes` maps paths to new content, None for a file that is gone.

    `names` are texts of which an error must mention one, if there are any. `excuse` is the class of
    undetectable damage that it belongs to, if it belongs to one: then, and only then, a wrong
    answer is counted and no failure.
    """

    group: str
    note: str
    target: str
    ask: str
    changes: Mapping[str, bytes | None]
    names: tuple[str, ...] = ()
    excuse: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one case, as the child tells its parent."""

    number: int
    group: str
    note: str
    outcome: Outcome
    detail: str = ""
    excuse: str = ""
    mib: float = 0.0
    ms: float = 0.0


def encode_verdict(verdict: Verdict) -> str:
    """One line."""
    return json.dumps(asdict(verdict))


def decode_verdict(line: bytes) -> Verdict:
    found = json.loads(line)
    return Verdict(**found | {"outcome": Outcome(found["outcome"])})


@dataclass(slots=True)
class Target:
    """An undamaged table, the questions one may put to it, and the right answers."""

    files: Files
    asks: Mapping[str, Ask]
    root: str = ROOT
    truths: dict[str, Any] = field(default_factory=dict)

    def storage(self, changes: Mapping[str, bytes | None]) -> MemoryStorage:
        """The table with these changes, apart from every other copy of it."""
        storage = MemoryStorage(root=self.root)
        for path, data in {**self.files, **changes}.items():
            if data is not None:
                storage.replace(path, data)
        return storage

    def truth(self, ask: str) -> Any:
        if ask not in self.truths:
            self.truths[ask] = self.asks[ask](self.storage({}))
        return self.truths[ask]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of input: its tables and its cases, the same ones in the same order each time.

    Every case is of one of the `groups`; at least so many run in all.
    """

    groups: tuple[str, ...]
    least: int
    least_full: int
    targets: Callable[[], Mapping[str, Target]]
    cases: Callable[[Mapping[str, Target]], Iterable[Case]]

    def __iter__(self) -> Iterator[tuple[Target, Case]]:
        targets = self.targets()
        return ((targets[case.target], case) for case in self.cases(targets))


def judge(target: Target, case: Case) -> tuple[Outcome, str]:
    """Ask the damaged table and compare with the truth."""
    truth = target.truth(case.ask)
    try:
        answer = target.asks[case.ask](target.storage(case.changes))
    except lentic.LenticError as error:
        if _is_out_of_memory(error):
            return Outcome.GREEDY, repr(error.__cause__)[:300]
        if case.names and not any(name in str(error) for name in case.names):
            return Outcome.UNNAMED, f"{case.names[0]} is not in: {error}"[:300]
        return Outcome.REFUSED, f"{type(error).__name__}: {error.what}"[:200]
    except MemoryError as error:
        return Outcome.GREEDY, repr(error)[:300]
    except Exception as error:
        return Outcome.UNTYPED, repr(error)[:300]
    if _is_same(answer, truth):
        return Outcome.EXACT, ""
    return Outcome.WRONG, _difference(answer, truth)[:300]


def _is_out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__
    return False


def _is_same(answer: Any, truth: Any) -> bool:
    if isinstance(answer, pa.Table):
        return isinstance(truth, pa.Table) and answer.equals(truth)
    return bool(answer == truth)


def _difference(answer: Any, truth: Any) -> str:
    if not isinstance(answer, pa.Table):
        return f"{answer!r}"[:140] + f" is not {truth!r}"[:140]
    if answer.num_rows != truth.num_rows:
        return f"{answer.num_rows} rows, not {truth.num_rows}"
    if answer.schema != truth.schema:
        wrong = [
            f"{a} not {t}" for a, t in zip(answer.schema, truth.schema, strict=False) if a != t
        ]
        return f"other columns: {'; '.join(wrong)}"
    wrong = [n for n in truth.column_names if not answer[n].equals(truth[n])]
    name = wrong[0]
    pairs = zip(answer[name].to_pylist(), truth[name].to_pylist(), strict=True)
    values = [(a, t) for a, t in pairs if a != t]
    shown = f"{values[0][0]!r}"[:60] + f" not {values[0][1]!r}"[:60] if values else "a kind of null"
    return f"other values in {', '.join(wrong)}: {len(values)} rows of {name}, {shown}"
