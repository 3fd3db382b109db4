"""The files of a table as of an earlier write, and whether they can be counted on.

Whoever protects such a state or goes back to it asks in the transaction that decides it: a file may
have been cleaned, or a clean that is planned may be about to take it.
"""

from __future__ import annotations

from lentic.errors import Refused, shell_command
from lentic.format.names import Action
from lentic.format.times import CompletedAt, RequestedAt
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_named_files
from lentic.txn.transaction import Transaction
from lentic.view.listing import load_table_files
from lentic.view.table_view import gone_paths


def load_state(txn: Transaction, upto: CompletedAt) -> tuple[str, ...]:
    """Every file a reader needs as of `upto`.

    `Refused` if one is gone or a pending clean is going to delete it.
    """
    storage = txn.table.storage
    groups = load_table_files(storage, txn.timeline).groups(upto)
    if gone := gone_paths(groups):
        raise _not_there(txn, upto, gone[0], "is gone: a clean took it")
    paths = tuple(sorted(path for group in groups for path in group.latest.paths))
    for clean in txn.timeline.pending(Action.CLEAN):
        doomed = load_named_files(storage, clean)
        for path in paths:
            if path.rpartition("/")[2] in doomed:
                raise _not_there(txn, upto, path, f"is about to be deleted by {clean}")
    return paths


def find_write(txn: Transaction, at: RequestedAt) -> Instant:
    """The completed write that was requested at `at`; `Refused` if there is none."""
    for write in txn.timeline.writes():
        if write.requested_at == at:
            return write
    raise Refused(
        f"There is no completed write {at} on the active timeline.",
        where=txn.table.storage.root,
        safe="nothing was changed",
        next_step="choose one of: " + shell_command("timeline", txn.table.storage.root),
    )


def just_before(write: Instant) -> CompletedAt:
    """The greatest 17 digits below the completion of `write`, be they a time or not."""
    assert write.completed_at is not None, write
    return CompletedAt(f"{int(write.completed_at) - 1:017d}")


def _not_there(txn: Transaction, upto: CompletedAt, path: str, why: str) -> Refused:
    return Refused(
        f"A file of the table as of {upto} {why}.",
        where=path,
        safe="nothing was changed",
        next_step="choose a later write, and keep more in future: hoodie.clean.commits.retained, "
        "or a savepoint",
    )
