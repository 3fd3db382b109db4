"""What must hold of a table at any moment, whatever crashed. Each finding is one sentence."""

from __future__ import annotations

from lentic.format import layout
from lentic.format.names import requested_at_of
from lentic.format.times import RequestedAt
from lentic.services.verify import verify_table
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.history import load_history
from lentic.timeline.instant import WRITES
from lentic.timeline.reader import decode_write, load_commit_metadata, load_timeline


def check_table(storage: Storage) -> list[str]:
    """What `verify_table` finds, and files of any commit that are gone: nobody cleans here."""
    present = {file.path for file in storage.walk("")}
    return verify_table(storage) + [
        f"{instant} names {stat.path}, which is not there"
        for instant in load_timeline(storage).writes()
        for stat in load_commit_metadata(storage, instant).stats
        if stat.path not in present
    ]


def list_leftovers(storage: Storage) -> list[str]:
    """Data files no completed write names, markers, requests to cancel plans that have ended, and
    what attempts and driver agreed on. None should be left once a later write, or a clean, has
    cleaned up after a crash.

    The finalize marker of an instant that has ended is none: it stays for attempts that wake up
    late.
    """
    timeline = load_timeline(storage)
    named = {p for i in timeline.writes() for p in load_commit_metadata(storage, i).paths()}
    for instant, content in load_history(storage).contents.items():
        if instant.action in WRITES:
            named |= decode_write(content, instant, f"{layout.HISTORY} {instant}").paths()
    pending = {layout.finalized(i.requested_at) for i in timeline.pending()}
    cancellable = {layout.cancel_request(i.requested_at) for i in timeline.pending()}
    return [
        file.path
        for file in storage.walk("")
        if file.path.startswith(layout.TEMP + "/")
        or (file.path.startswith(layout.COMPLETIONS + "/") and not _is_finalize_marker(file))
        or file.path in pending
        or (file.directory == layout.CANCEL and file.path not in cancellable)
        or (requested_at_of(file.name) and file.path not in named and not _is_archive(file))
    ]


def _is_archive(file: FileInfo) -> bool:
    """Whether it belongs to the archived timeline, whose files have names like data files."""
    return file.directory == layout.HISTORY


def _is_finalize_marker(file: FileInfo) -> bool:
    at = RequestedAt(file.name.partition(".")[0])
    return file.path == layout.finalized(at)
