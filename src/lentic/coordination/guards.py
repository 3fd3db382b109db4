"""Who may execute a plan: whoever took its guard last.

A guard is an empty file with a number, made under the table lock, one more than those before it. It
never changes and is never overwritten, so a sleeper that wakes cannot pass for the present owner,
whatever it does to the heartbeat. Completing a plan asks for the latest guard (R1).
"""

from __future__ import annotations

from lentic.format import layout
from lentic.format.times import RequestedAt
from lentic.storage.base import Storage


def take_guard(storage: Storage, at: RequestedAt) -> int:
    """The number of a new guard of the plan at `at`. The caller holds the table lock."""
    number = latest_guard(storage, at) + 1
    storage.put_if_absent(layout.guard(at, number), b"")
    return number


def latest_guard(storage: Storage, at: RequestedAt) -> int:
    """The number of the latest guard, 0 if there was none."""
    names = (file.name for file in storage.list_files(layout.guards(at)))
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=0)


def remove_guards(storage: Storage, at: RequestedAt) -> None:
    """Take the guards of a plan that has ended away."""
    for file in storage.list_files(layout.guards(at)):
        storage.delete(file.path)
    storage.prune(layout.guards(at))
