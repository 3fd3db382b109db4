"""From a path or URL, as users write it, to the storage that serves it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from lentic.errors import ConfigError
from lentic.storage.base import FolderStorage
from lentic.storage.local import LocalStorage
from lentic.storage.object_store import ObjectStorage

_OBJECT_SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "memory")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_storage(path: str, options: Mapping[str, str]) -> FolderStorage:
    """The storage at `path`: a local directory, `file://…`, or the URL of an object store.

    `options` are for the object store (endpoint, region, credentials). Nothing is contacted yet.
    """
    if path.startswith("file:/"):
        return _local(_path_of_file_url(path), options)
    scheme = _SCHEME.match(path)
    if scheme is None:
        return _local(path, options)
    if scheme[1].lower() in _OBJECT_SCHEMES:
        return ObjectStorage(path, tuple(sorted(options.items())))
    raise ConfigError(
        f"Unknown kind of storage {scheme[1]!r}.",
        safe="nothing was opened",
        next_step=f"use a local path, file://, or one of {', '.join(_OBJECT_SCHEMES)}",
    )


def locate_inside(root: str, typed: str) -> str | None:
    """The path under a local `root` of a file as users type it: in full, as a URL, or relative to
    the current directory, links or not. None if it lies elsewhere, or `root` is not local."""
    path = _path_of_file_url(typed) if typed.startswith("file:/") else typed
    if _SCHEME.match(root) or _SCHEME.match(path):
        return None
    for resolve in (os.path.abspath, os.path.realpath):
        whole, start = resolve(path), os.path.join(resolve(root), "")
        if whole.startswith(start):
            return whole.removeprefix(start).replace(os.sep, "/")
    return None


def _local(path: str, options: Mapping[str, str]) -> LocalStorage:
    if not path:
        raise ConfigError("The table path is empty.", next_step="give a directory or a URL")
    if options:
        raise ConfigError(
            f"Local storage takes no options, but got {', '.join(sorted(options))}.",
            where=path,
            next_step="leave them out, or give the URL of an object store",
        )
    return LocalStorage(os.path.abspath(path))


def _path_of_file_url(url: str) -> str:
    """The path in `file:/p`, `file:///p` or `file://localhost/p`, taken as it is written."""
    rest = url.removeprefix("file:")
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    if host not in ("", "localhost") or not slash:
        raise ConfigError(
            f"{url!r} names another machine or no path.", next_step="write file:///path"
        )
    return slash + path
