"""Cutting a file group into slices (RFC-66 appendix, rule R10). Pure.

Barriers are the requested times of completed base files. A log belongs to the greatest barrier not
after its completion; logs that completed before every base file form a slice of their own under the
barrier `BEGINNING`. Within a slice logs merge in the order in which they completed, then by
requested time, version and write token (R17).
"""

from __future__ import annotations

from collections.abc import Iterable

from lentic.format.times import RequestedAt, is_upto
from lentic.view.files import BaseFile, FileGroup, FileGroupId, FileSlice, LogFile

BEGINNING = RequestedAt("0")
"""The barrier before every other."""


def merge_order(log: LogFile) -> tuple[str, str, int, str]:
    """Sort key of logs within a slice: later ones win ties."""
    name = log.name
    return (str(log.completed_at), str(name.requested_at), name.version, name.write_token)


def slice_file_group(
    group: FileGroupId, bases: Iterable[BaseFile], logs: Iterable[LogFile]
) -> FileGroup:
    """The slices of one group, newest first. Every log lands in exactly one slice.

    The caller passes files of completed instants only. Two base files of one instant cannot both
    be named by its metadata; the one with the greater write token would win.
    """
    base_of = {base.name.requested_at: base for base in sorted(bases, key=lambda b: b.path)}
    logs_of: dict[RequestedAt, list[LogFile]] = {barrier: [] for barrier in base_of}
    for log in sorted(logs, key=merge_order):
        reached = (barrier for barrier in base_of if is_upto(barrier, log.completed_at))
        logs_of.setdefault(max(reached, default=BEGINNING), []).append(log)
    slices = (
        FileSlice(group, barrier, base_of.get(barrier), tuple(logs_of[barrier]))
        for barrier in sorted(logs_of, reverse=True)
    )
    return FileGroup(group, tuple(slices))
