"""Who may execute a plan: whoever took its guard last.

A guard is an empty file with a number, one more than those before it. Taking it is a decision of
the table lock like a change of the timeline (`Transaction.take_guard`): whoever lost the lock takes
none. It never changes and is never overwritten, so a sleeper that wakes cannot pass for the present
owner, whatever it does to the heartbeat. Completing a plan asks for the latest guard (R1).
"""

from __future__ import annotations

from lentic.format import layout
from lentic.format.times import RequestedAt
from lentic.storage.base import Storage


def latest_guard(storage: Storage, at: RequestedAt) -> int:
    """The number of the latest guard, 0 if there was none."""
    names = (file.name for file in storage.list_files(layout.guards(at)))
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=0)


def remove_guards(storage: Storage, at: RequestedAt) -> None:
    """Take the guards of a plan that has ended away."""
    for file in storage.list_files(layout.guards(at)):
        storage.delete(file.path)
    storage.prune(layout.guards(at))
