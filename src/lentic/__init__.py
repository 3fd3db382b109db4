"""lentic: a Python table engine for data lakes in the Apache Hudi 1.x format.

    import lentic

    t = lentic.create("lake/orders", "id string, amount double, day string, at timestamp",
                      key="id", partition_by="day", ordering="at", buckets=4)
    t.upsert(rows)
    t.compact()
    t.read()

`lentic.spark` is loaded when it is first used, so that the package works without PySpark.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from lentic.api import create, open
from lentic.config.options import UnknownOption
from lentic.errors import (
    ConfigError,
    Conflict,
    Corrupt,
    HeartbeatLost,
    InstantCancelled,
    InvalidPath,
    InvalidRecord,
    LenticError,
    LockTimeout,
    MissingFile,
    OutcomeUnknown,
    PlanBusy,
    PlanCompleted,
    PlanMustBeRolledBack,
    RangeUnavailable,
    Refused,
    SchemaMismatch,
    StorageError,
    TableExists,
    TableNotFound,
    Unavailable,
    UnsupportedFormat,
    WriteConflict,
)
from lentic.services.outcome import Aborted, AlreadyCommitted, Committed, Outcome
from lentic.table import Table
from lentic.timeline.instant import Instant
from lentic.write.commit import Commit

__version__ = "0.1.0"

__all__ = [
    "Aborted",
    "AlreadyCommitted",
    "Commit",
    "Committed",
    "ConfigError",
    "Conflict",
    "Corrupt",
    "HeartbeatLost",
    "Instant",
    "InstantCancelled",
    "InvalidPath",
    "InvalidRecord",
    "LenticError",
    "LockTimeout",
    "MissingFile",
    "Outcome",
    "OutcomeUnknown",
    "PlanBusy",
    "PlanCompleted",
    "PlanMustBeRolledBack",
    "RangeUnavailable",
    "Refused",
    "SchemaMismatch",
    "StorageError",
    "Table",
    "TableExists",
    "TableNotFound",
    "Unavailable",
    "UnknownOption",
    "UnsupportedFormat",
    "WriteConflict",
    "create",
    "open",
]


def __getattr__(name: str) -> ModuleType:
    if name == "spark":
        return importlib.import_module("lentic.spark")
    raise AttributeError(f"module 'lentic' has no attribute {name!r}")
