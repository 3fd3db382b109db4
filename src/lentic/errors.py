"""The whole exception tree. Each class is named for what the caller does next.

    LenticError
    ├─ Refused            fix the call; nothing was written
    │  ├─ ConfigError         an option is wrong or contradicts another
    │  ├─ SchemaMismatch      the rows do not fit the table's schema
    │  ├─ InvalidRecord       a row cannot be stored: null key, unsafe partition value
    │  ├─ InvalidPath         a path would leave the table
    │  ├─ TableNotFound       the path holds no table
    │  ├─ TableExists         the path already holds a table
    │  ├─ RangeUnavailable    the time asked for has been cleaned away
    │  └─ UnsupportedFormat   a table version or feature this release cannot handle
    ├─ Conflict           nothing was committed, another actor had precedence; safe to start over
    │  ├─ WriteConflict  PlanBusy  PlanMustBeRolledBack  PlanCompleted
    │  ├─ InstantCancelled
    ├─ OutcomeUnknown     the commit may have landed; reload before retrying, delete nothing
    ├─ Unavailable        transient; the same call may work later
    │  ├─ LockTimeout  HeartbeatLost
    │  └─ StorageError
    │     └─ MissingFile      a file that should be there is not
    └─ Corrupt            bytes do not decode; names file and offset

Every error says what happened, where, what is safe and what to type next. Errors cross process
borders (Spark workers), so each survives pickling and `to_fields`/`from_fields` (JSON) unchanged.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping


def shell_command(*words: str) -> str:
    """The command `lentic` with these words, quoted so that it can be typed as it stands."""
    return shlex.join(("lentic", *words))


class LenticError(Exception):
    """Base of every error this package raises on purpose."""

    def __init__(self, what: str, *, where: str = "", safe: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.safe = safe
        self.next_step = next_step

    def __str__(self) -> str:
        lines = [f"{self.what} [{self.where}]" if self.where else self.what]
        if self.safe:
            lines.append(f"  safe: {self.safe}")
        if self.next_step:
            lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (from_fields, (self.to_fields(),))

    def to_fields(self) -> dict[str, str]:
        """The error as plain strings, for JSON; `from_fields` is the way back."""
        return {
            "kind": type(self).__name__,
            "what": self.what,
            "where": self.where,
            "safe": self.safe,
            "next_step": self.next_step,
        }


class Refused(LenticError):
    """The call cannot be done as it stands; nothing was written."""


class ConfigError(Refused):
    """An option is unknown to its type, or two options contradict each other."""


class SchemaMismatch(Refused):
    """The rows do not fit the table's schema."""


class InvalidRecord(Refused):
    """A row that cannot be stored: a null key, a partition value that is no safe folder name."""


class InvalidPath(Refused):
    """A path that would leave the table, or name something a file cannot be called."""


class TableNotFound(Refused):
    """There is no table at the path."""


class TableExists(Refused):
    """There is a table at the path already."""


class RangeUnavailable(Refused):
    """The rows of the time asked for are no longer there; `next_step` names the earliest time."""


class UnsupportedFormat(Refused):
    """The table uses a version or feature that this release does not handle."""


class Conflict(LenticError):
    """Nothing was committed: another actor had precedence. Safe to start over."""


class WriteConflict(Conflict):
    """Another writer changed the same file groups first."""


class PlanBusy(Conflict):
    """Another job executes the plan and its heartbeat is alive."""


class PlanMustBeRolledBack(Conflict):
    """An earlier attempt at a removable plan failed; it must be rolled back first."""


class PlanCompleted(Conflict):
    """The plan has completed, so that it cannot be cancelled any more."""


class InstantCancelled(Conflict):
    """The plan was cancelled, aborted or rolled back while it ran."""


class OutcomeUnknown(LenticError):
    """The commit may have landed: reload before retrying, and delete nothing."""


class Unavailable(LenticError):
    """A transient failure; the same call may work later."""


class LockTimeout(Unavailable):
    """The table lock was not free in time."""


class HeartbeatLost(Unavailable):
    """This writer could not give a sign of life for so long that others may have given it up."""


class StorageError(Unavailable):
    """The storage failed or answered what it must not."""


class MissingFile(StorageError):
    """A file that should be there is not."""


class Corrupt(LenticError):
    """Bytes that do not decode; `where` names file and offset."""


def _tree(root: type[LenticError]) -> Iterator[type[LenticError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


def from_fields(fields: Mapping[str, str]) -> LenticError:
    """The error that `to_fields` described. Only classes of this tree can come out."""
    known = {kind.__name__: kind for kind in _tree(LenticError)}
    kind = known.get(fields["kind"], LenticError)
    rest = {name: fields[name] for name in ("where", "safe", "next_step")}
    return kind(fields["what"], **rest)
