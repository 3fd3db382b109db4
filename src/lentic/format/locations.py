"""Absolute paths in plans, as Hudi writes them, and paths relative to the table, as we do."""

from __future__ import annotations

from lentic.format.layout import is_data_path


def absolute_path(path: str, root: str) -> str:
    """Where the data file `path` of the table at `root` lies."""
    assert is_data_path(path), path
    return f"{root.rstrip('/')}/{path}"


def relative_path(location: str, root: str) -> str | None:
    """The data file of the table at `root` that lies at `location`; None if none can lie there."""
    prefix = _plain_location(root) + "/"
    plain = _plain_location(location)
    inside = plain.removeprefix(prefix)
    return inside if inside != plain and is_data_path(inside) else None


def _plain_location(location: str) -> str:
    """A location in one spelling, since engines write `file:/x` or `/x`, `s3a:` or `s3:`."""
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return location.rstrip("/")
    rest = rest.rstrip("/")
    if scheme == "file":
        return "/" + rest.lstrip("/")
    return ("s3" if scheme in ("s3a", "s3n") else scheme) + ":" + rest
