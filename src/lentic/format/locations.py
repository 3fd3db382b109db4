"""Absolute locations, as Hudi writes them into plans, and paths relative to the table. Pure."""

from __future__ import annotations

from lentic.format.layout import is_data_path


def absolute_location(root: str, path: str) -> str:
    """Where the data file at `path` of the table at `root` lies."""
    assert is_data_path(path), path
    return f"{root.rstrip('/')}/{path}"


def data_path_of(root: str, location: str) -> str | None:
    """The path of a data file within the table at `root`; None if the location is none's."""
    plain = plain_location(location)
    inside = plain.removeprefix(plain_location(root) + "/")
    return inside if inside != plain and is_data_path(inside) else None


def plain_location(location: str) -> str:
    """A location in one spelling, since engines write `file:/x` or `/x`, `s3a:` or `s3:`."""
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return location.rstrip("/")
    rest = rest.rstrip("/")
    if scheme == "file":
        return "/" + rest.lstrip("/")
    return ("s3" if scheme in ("s3a", "s3n") else scheme) + ":" + rest
