"""The questions put to each golden table, and the answers: what Apache Hudi itself read.

`HUDI_IS_WRONG` lists the only answers that differ from Hudi's, each with its reason; the right ones
are made from what Hudi reads elsewhere of the same table. Everywhere else Hudi's word is final.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tests.golden.archive import load_expected

Row = dict[str, Any]

EXPECTED: Mapping[str, Mapping[str, Any]] = load_expected()

HUDI_IS_WRONG: Mapping[tuple[str, str], str] = {
    ("cow_hive_complex", "incremental"): (
        "Hudi's incremental query takes part from the folder name and leaves it escaped: p%3D1. "
        "The files hold p=1, and so says Hudi's own snapshot and time travel."
    ),
    ("mor_parquet_log", "incremental-1"): (
        "Hudi leaves out base rows from before the window before it merges, so late updates, which "
        "lose against those rows in every other query, come out as if they had won: 13 rows that "
        "the table does not hold."
    ),
}
"""(table, query or kind of query) -> why Hudi's answer is not the right one."""

_WRITES = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True, slots=True)
class Case:
    """One question to one table. `query` is a name such as `snapshot` or `time_travel-1`."""

    table: str
    query: str

    @property
    def kind(self) -> str:
        return self.query.partition("-")[0]

    @property
    def entry(self) -> Any:
        """What Hudi answered: rows, or a range or point in time with its rows or error."""
        kind, _, number = self.query.partition("-")
        found = EXPECTED[self.table][kind]
        return found[int(number)] if number else found

    def __str__(self) -> str:
        return f"{self.table}-{self.query}"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The answer where the files of the asked time are gone: a refusal."""

    asked: str


def list_cases() -> list[Case]:
    """Every question whose answer was recorded, table by table."""
    cases = []
    for table, recorded in sorted(EXPECTED.items()):
        whole = [kind for kind in ("snapshot", "read_optimized", "cdc") if kind in recorded]
        parts = [
            f"{kind}-{number}"
            for kind in ("incremental", "time_travel")
            for number in range(len(recorded.get(kind, ())))
        ]
        cases += [Case(table, query) for query in whole + parts]
    return cases


def answer(case: Case) -> list[Row] | Cleaned:
    """The right answer to a question."""
    entry = case.entry
    if isinstance(entry, list):
        return entry
    if "Cleaner cleaned up" in entry.get("error", ""):
        return Cleaned(entry["as_of"])
    for query in (case.query, case.kind):
        if (case.table, query) in HUDI_IS_WRONG:
            return RIGHT_INSTEAD[case.table, query](case)
    if "error" in entry:  # Hudi crashes where there is something to read
        return _rows_changed_in_window(case)
    rows: list[Row] = entry["rows"]
    return rows


def expected_fields(table: str) -> list[dict[str, Any]]:
    """The columns with `meta=True`, in order, as Spark describes them."""
    fields: list[dict[str, Any]] = EXPECTED[table]["schema"]["fields"]
    return fields


def _rows_changed_in_window(case: Case) -> list[Row]:
    """The snapshot's rows that instants completed in the window wrote, for a window that ends now.

    The columns are those that Hudi's other answers to the table have.
    """
    window = case.entry
    assert window["end_completion_inclusive"] is None, "the snapshot is the end of the window"
    recorded = EXPECTED[case.table]
    writers = {
        instant["requested"]
        for instant in recorded["timeline"]
        if instant["action"] in _WRITES
        and instant["completed"] > window["begin_completion_exclusive"]
    }
    columns = recorded["incremental"][0]["rows"][0]
    return [
        {name: row[name] for name in columns}
        for row in recorded["snapshot"]
        if row["_hoodie_commit_time"] in writers
    ]


def _with_part_unescaped(case: Case) -> list[Row]:
    return [{**row, "part": unquote(row["part"])} for row in case.entry["rows"]]


RIGHT_INSTEAD: Mapping[tuple[str, str], Callable[[Case], list[Row]]] = {
    ("cow_hive_complex", "incremental"): _with_part_unescaped,
    ("mor_parquet_log", "incremental-1"): _rows_changed_in_window,
}
"""How the right answer is made, for each one that is wrong."""
