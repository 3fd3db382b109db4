"""Begin markers: an empty file that announces a data file before it exists.

`.hoodie/.temp/<requested_at>/<partition>/<data file>.marker.<CREATE|MERGE>`, the direct form that
Apache Hudi's rollback understands too. Because the marker is durable before the data file is
created, the markers of an instant name every file that any attempt at it may have left.
"""

from __future__ import annotations

from collections.abc import Collection

from lentic.format import layout
from lentic.format.layout import MarkerKind
from lentic.format.names import requested_at_of
from lentic.format.times import RequestedAt
from lentic.storage.base import Storage

_SUFFIXES = (".marker.CREATE", ".marker.MERGE", ".marker.APPEND")


def announce(storage: Storage, requested_at: RequestedAt, path: str, kind: MarkerKind) -> None:
    """Say durably that a data file is about to be created at `path`."""
    storage.put_if_absent(layout.marker(requested_at, path, kind), b"")


def list_announced(storage: Storage, requested_at: RequestedAt) -> tuple[str, ...]:
    """Every data file announced for the instant, by us or by Apache Hudi's timeline server."""
    directory = layout.markers(requested_at)
    found = set()
    for file in storage.walk(directory):
        relative = file.path.removeprefix(directory + "/")
        if "/" not in relative and relative.startswith("MARKERS"):
            if relative != "MARKERS.type":
                lines = storage.read(file.path).decode(errors="replace").split("\n")
                found |= {path for line in lines if (path := _data_path(line, requested_at))}
        elif path := _data_path(relative, requested_at):
            found.add(path)
    return tuple(sorted(found))


def remove_markers(
    storage: Storage, requested_at: RequestedAt, *, of: Collection[str] | None = None
) -> None:
    """Take the instant's markers away, once it is completed or rolled back.

    Whoever has deleted the files that were announced says which, in `of`: a marker that an attempt
    has made since stays, because nothing else tells of its file.
    """
    directory = layout.markers(requested_at)
    for file in storage.walk(directory):
        path = _data_path(file.path.removeprefix(directory + "/"), requested_at)
        if of is None or path is None or path in of:
            storage.delete(file.path)
    storage.prune(directory)


def list_marked(storage: Storage) -> frozenset[RequestedAt]:
    """The instants that have markers."""
    paths = (file.path.removeprefix(layout.TEMP + "/") for file in storage.walk(layout.TEMP))
    names = {path.partition("/")[0] for path in paths}
    return frozenset(RequestedAt(name) for name in names if name.isdigit())


def _data_path(marker: str, requested_at: RequestedAt) -> str | None:
    for suffix in _SUFFIXES:
        if marker.endswith(suffix):
            path = marker.removesuffix(suffix)
            # A marker decides what is deleted, so it may name data files of its own instant alone.
            is_ours = requested_at_of(path.rpartition("/")[2]) == requested_at
            return path if is_ours and layout.is_data_path(path) else None
    return None
