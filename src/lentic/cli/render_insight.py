"""Answers and findings -> text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from lentic.cli.render import grid, whole
from lentic.insight.answers import Answer, Health, Severity, Version
from lentic.services.next_steps import NextStep

_COLOUR = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


def render_answer(answer: Answer) -> Group:
    parts: list[RenderableType] = [
        whole(f"{answer.kind} {answer.question}", style="italic"),
        grid("", ("", ""), answer.facts),
    ]
    parts += [Text(f"• {reason.says}") for reason in answer.reasons]
    if answer.versions:
        parts += _versions(answer.versions)
    parts += _next_steps(answer.next_steps)
    parts += [Text(f"not looked at: {what}", style="dim") for what in answer.not_looked_at]
    return Group(*parts)


def _versions(versions: Sequence[Version]) -> Iterator[RenderableType]:
    """A table that has numbers for files, and their paths below it: in a narrow column a path is
    broken into lines of a few letters, which nobody can copy."""
    numbers = {path: n for n, path in enumerate(dict.fromkeys(v.file for v in versions), start=1)}
    columns = ("write", "completed at", "ordering", "what", "file", "")
    rows = (_version(version, numbers[version.file]) for version in versions)
    yield grid("versions, in merge order", columns, rows)
    yield from (whole(f"file {number}: {path}", style="") for path, number in numbers.items())


def _version(version: Version, file: int) -> tuple[object, ...]:
    ordering = ", ".join("null" if v is None else v for v in version.ordering)
    kind = f"partial {version.kind}" if version.is_partial else version.kind
    won = "won" if version.won else ""
    return version.commit, version.completed_at or "", ordering, kind, file, won


def _next_steps(steps: tuple[NextStep, ...]) -> Iterator[Text]:
    yield from (whole(f"next: {step.shell}") for step in steps)


def say_cancelled(told: Mapping[str, Any]) -> str:
    """What a cancellation promised."""
    at = told["requested_at"]
    if told["state"] == "aborted":
        return f"clustering {at} is aborted already: it was never committed."
    how = "its executor or a clean comes to it, or now"
    if told["executor"]:  # whoever aborts it now is refused
        how = f"{told['executor']} stops; to look again"
    return (
        f"clustering {at} is cancelled: it will not be committed, whoever executes it.\n"
        f"It ends as aborted when {how}: {told['next_step']['shell']}"
    )


def render_health(health: Health) -> Group:
    verdict = "is healthy." if health.is_healthy else "needs care."
    parts: list[RenderableType] = [whole(f"{health.path} {verdict}")]
    for finding in health.findings:
        line = Text(f"{finding.severity.value:8}", style=_COLOUR[finding.severity])
        parts.append(line.append(finding.says, style=""))
        if finding.remedy:
            parts.append(whole(f"{'':8}{finding.remedy.shell}"))
    looked = ", ".join(f"{count} {what}" for what, count in health.looked_at)
    if looked:
        parts.append(Text(f"looked at: {looked}", style="dim"))
    parts += [Text(f"not looked at: {what}", style="dim") for what in health.not_looked_at]
    return Group(*parts)
