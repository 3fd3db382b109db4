"""What insight answers with: sentences, each with a name for machines, and what to type next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from lentic.services.next_steps import NextStep


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence. `code` names its kind, the same in every release, for programs."""

    code: str
    says: str

    def __str__(self) -> str:
        return self.says


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a record: a row or a delete, in one file of one slice."""

    partition: str
    file: str
    """Its path in the table."""
    slice: str
    """The requested time at which its file slice begins."""
    kind: str
    """"base", "log" or "delete"."""
    commit: str
    """The write that the row says it comes from, by requested time."""
    completed_at: str | None
    """When that write completed; None if nobody knows any more."""
    ordering: tuple[str | None, ...] = ()
    """Its value of each ordering field, as text."""
    is_partial: bool = False
    won: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """Why something is as it is. `facts` are names with values, as text; a name comes again where
    there are several of a kind: a key in two file groups has two slices."""

    question: str
    kind: str
    """"instant", "file" or "key"."""
    facts: tuple[tuple[str, str], ...]
    reasons: tuple[Reason, ...]
    next_steps: tuple[NextStep, ...] = ()
    versions: tuple[Version, ...] = ()
    not_looked_at: tuple[str, ...] = ()

    def fact(self, name: str) -> str:
        """The value of one fact, the first if there are several; "" if it was not told."""
        return next(iter(self.every(name)), "")

    def every(self, name: str) -> tuple[str, ...]:
        """Each value of a fact that may be told several times, in order."""
        return tuple(value for told, value in self.facts if told == name)

    def has(self, code: str) -> bool:
        """Whether one of the reasons is of this kind."""
        return any(reason.code == code for reason in self.reasons)

    def to_json(self) -> dict[str, Any]:
        """As values of JSON. A fact is a text, or the list of its texts if it was told several
        times: those of one file group have the same place in each list."""
        every = {name: list(self.every(name)) for name, _ in self.facts}
        facts = {name: told if len(told) > 1 else told[0] for name, told in every.items()}
        return asdict(self) | {"facts": facts}

    def __str__(self) -> str:
        lines = [f"{self.kind} {self.question}"]
        lines += [f"  {name}: {value}" for name, value in self.facts]
        lines += [f"- {reason.says}" for reason in self.reasons]
        lines += [f"  next: {step.python}" for step in self.next_steps]
        return "\n".join([*lines, *(f"  not looked at: {what}" for what in self.not_looked_at)])


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, and what mends it if anything does."""

    severity: Severity
    code: str
    says: str
    remedy: NextStep | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """What ails a table. Notes are no ailments."""

    path: str
    findings: tuple[Finding, ...]
    looked_at: tuple[tuple[str, int], ...] = ()
    not_looked_at: tuple[str, ...] = ()

    @property
    def is_healthy(self) -> bool:
        return all(finding.severity is Severity.NOTE for finding in self.findings)

    def of(self, code: str) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.findings if finding.code == code)

    def to_json(self) -> dict[str, Any]:
        told = asdict(self) | {"looked_at": dict(self.looked_at), "healthy": self.is_healthy}
        return told | {
            "findings": [asdict(f) | {"severity": f.severity.value} for f in self.findings]
        }

    def __str__(self) -> str:
        lines = [f"{self.path} is {'healthy' if self.is_healthy else 'not healthy'}."]
        for finding in self.findings:
            lines.append(f"{finding.severity}: {finding.says}")
            if finding.remedy:
                lines.append(f"  next: {finding.remedy.python}")
        return "\n".join([*lines, *(f"not looked at: {what}" for what in self.not_looked_at)])
