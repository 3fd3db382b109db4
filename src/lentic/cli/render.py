"""Values -> text tables for a terminal."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from lentic.cli.facts import TableFacts
from lentic.services.clean import CleanRun
from lentic.services.explain import Explanation
from lentic.services.pending import PendingPlan
from lentic.timeline.instant import Instant

_STATE_COLOUR = {
    "completed": "green",
    "inflight": "yellow",
    "requested": "yellow",
    "aborted": "dim",
}


def grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Grid:
    """A titled text table; numbers to the right."""
    laid = Grid(title=title, title_justify="left", header_style="bold", show_header=any(columns))
    kept = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(kept) and all(isinstance(row[index], int | float) for row in kept)
        laid.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in kept:
        laid.add_row(*map(_cell, row))
    return laid


def whole(text: str, style: str = "bold") -> Text:
    """A line that is never broken, so that it can be copied: a command, a path."""
    return Text(text, style=style, no_wrap=True, overflow="ignore")


def render_timeline(instants: Iterable[Instant]) -> Grid:
    rows = [
        (
            instant.requested_at,
            instant.completed_at or "",
            instant.action.value,
            Text(instant.state.value, style=_STATE_COLOUR.get(instant.state.value.lower(), "")),
        )
        for instant in instants
    ]
    return grid("timeline", ("requested at", "completed at", "action", "state"), rows)


def render_plans(plans: Iterable[PendingPlan]) -> Group:
    """A few lines per plan: times and commands stay whole, so that they can be copied."""
    blocks = [_plan_block(plan) for plan in plans]
    return Group(*blocks) if blocks else Group(Text("No plan is pending."))


def _plan_block(plan: PendingPlan) -> Text:
    heard = "" if plan.heartbeat_age_s is None else f", seen {plan.heartbeat_age_s:.0f} s ago"
    block = whole(f"{plan.action.value} {plan.requested_at}")
    block.append(f"  {plan.state.value}, {plan.age_s:.0f} s old", style="not bold")
    lines = {
        "owner": f"{plan.owner or 'nobody'}{heard}",
        "extent": _extent(plan),
        "cancellation": _giving_way(plan),
        "in the way": "; ".join(plan.blockers) or "nothing",
        "next": plan.next_command,
    }
    for name, said in lines.items():
        block.append(f"\n  {name:<13} {said}", style="not bold")
    return block


def _extent(plan: PendingPlan) -> str:
    if not plan.is_readable:
        return "unknown"
    measured = "" if plan.bytes is None else f", {size(plan.bytes)}"
    return f"{plan.files} file(s) in {plan.partitions} partition(s){measured}"


def _giving_way(plan: PendingPlan) -> str:
    told = plan.cancellation
    said = ["cancellable" if told.cancellable else "no"]
    said += [told.policy] if told.policy else []
    said += [f"{group} cancelled {count} times" for group, count in told.cancels_before[:3]]
    return "; ".join([*said, *(["ALERT: starved"] if told.starved else [])])


def render_explanation(explanation: Explanation) -> Group:
    rows = [
        (step.what, step.files, size(step.bytes), "" if step.rows is None else step.rows)
        for step in explanation.steps
    ]
    said = Text("\n".join(f"conflict: {line}" for line in explanation.conflicts))
    if not rows:
        return Group(Text("There is nothing to do."), *([said] if said else []))
    title = f"{explanation.service}, dry run"
    return Group(grid(title, ("what", "files", "bytes", "rows"), rows), said)


def say_clean_run(run: CleanRun) -> list[str]:
    """A line for each thing that was done; none if there was nothing to do."""
    lines = [f"{plan} is aborted." for plan in run.aborted]
    lines += [f"{instant} is rolled back." for instant in run.undone]
    lines += [f"{instant} was begun by another, and is finished." for instant in run.finished]
    lines += [f"{outcome.instant}: {type(outcome).__name__}" for outcome in run.cleans]
    lines += [f"{len(run.orphans)} orphan(s) deleted."] if run.orphans else []
    return lines


def render_rows(shown: pa.Table) -> Grid:
    rows = [[_plain(value) for value in row.values()] for row in shown.to_pylist()]
    return grid(f"{shown.num_rows} rows", shown.column_names, rows)


def format_csv(rows: pa.Table) -> str:
    """RFC 4180 text; nested values as JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows([_plain(value) for value in row.values()] for row in rows.to_pylist())
    return text.getvalue()


def json_value(value: Any) -> Any:
    """A value as JSON has it: bytes as hex, numbers that are none as null, and all that JSON has no
    form for as its text."""
    match value:
        case dict():
            return {str(name): json_value(inner) for name, inner in value.items()}
        case list() | tuple():
            return [json_value(inner) for inner in value]
        case float():
            return value if math.isfinite(value) else None
        case None | str() | int():
            return value
        case bytes():
            return value.hex()
        case _:
            return str(value)


def _plain(value: object) -> object:
    """A value for a cell; nested ones as JSON."""
    if isinstance(value, (list, dict)):
        return json.dumps(json_value(value), allow_nan=False)
    return value if isinstance(value, float) else json_value(value)


def render_table_facts(facts: TableFacts) -> Group:
    told = (
        ("table", facts.name),
        ("path", facts.path),
        ("type", f"{facts.table_type}, version {facts.version}"),
        ("key", ", ".join(facts.key)),
        ("partitioned by", ", ".join(facts.partition_by) or "nothing"),
        ("ordering", ", ".join(facts.ordering) or "none"),
        ("merge mode", facts.merge_mode),
        ("buckets", facts.buckets or "unknown"),
        ("instants", f"{facts.completed} completed, {facts.pending} pending"),
    )
    partitions = (
        (
            p.partition or "(root)",
            p.file_groups,
            size(p.base_bytes),
            p.log_files,
            size(p.log_bytes),
            p.small_files,
        )
        for p in facts.partitions
    )
    return Group(
        grid("facts", ("", ""), told),
        grid("columns", ("column", "type"), facts.columns.items()),
        grid(
            "partitions",
            ("partition", "file groups", "base", "log files", "logs", "small files"),
            partitions,
        ),
    )


def size(count: int) -> str:
    """Bytes for people."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _cell(value: Any) -> Text:
    """A value as plain text: what it holds is never read as mark-up."""
    return value if isinstance(value, Text) else Text("" if value is None else str(value))


def display(shown: RenderableType) -> None:
    """Print for a terminal; only tables keep to its width."""
    Console().print(shown, crop=False)
