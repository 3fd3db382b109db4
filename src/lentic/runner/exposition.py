"""Metrics as values, and their text in Prometheus' exposition format 0.0.4. Pure.

Names are Apache Hudi's where it has one for the thing, in the form of Prometheus: what Hudi calls
`<table>.compaction.duration` is `hoodie_compaction_duration_ms{table="…"}` here. Ours begin with
`lentic_`. Labels hold where tables lie, without secrets, never options.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one name."""

    name: str
    kind: Literal["counter", "gauge"]
    doc: str

    def __post_init__(self) -> None:
        assert _NAME.match(self.name), self.name


@dataclass(frozen=True, slots=True)
class Sample:
    """One number."""

    family: Family
    labels: Labels
    value: float


def format_metrics(samples: Iterable[Sample]) -> str:
    """The text that Prometheus reads: families by name, each with its help and type once."""
    by_family: dict[str, list[Sample]] = {}
    for sample in samples:
        by_family.setdefault(sample.family.name, []).append(sample)
    lines: list[str] = []
    for name, group in sorted(by_family.items()):
        family = group[0].family
        lines.append(f"# HELP {name} {_escape_doc(family.doc)}")
        lines.append(f"# TYPE {name} {family.kind}")
        lines += [
            f"{name}{_format_labels(sample.labels)} {_format_value(sample.value)}"
            for sample in sorted(group, key=lambda sample: sample.labels)
        ]
    return "\n".join(lines) + "\n" if lines else ""


def _format_labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape_value(value)}"' for name, value in labels) + "}"


def _escape_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_doc(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _format_value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
