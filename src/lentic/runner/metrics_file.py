"""The file of metrics: the one door through which a file that is no table's is written.

It is replaced whole, so that no collector reads half of it. Whatever else lies at its path, such as
a device, a pipe or a link, would be gone by that for everybody who uses it, and so it is refused.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from lentic.errors import ConfigError
from lentic.storage.base import Storage
from lentic.storage.local import LocalStorage
from lentic.storage.open import open_storage


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """A path, on a local disk or in an object store, as a user gave it."""

    path: str

    def ensure_usable(self) -> None:
        """`ConfigError` if no file can be put there, or something else is there."""
        storage, name = self._place()
        if not name:
            raise self._refused("names no file")
        if isinstance(storage, LocalStorage):
            self._ensure_plain(storage.root, name)

    def save(self, text: str) -> None:
        """Replace the file, if that is still what it is."""
        self.ensure_usable()
        storage, name = self._place()
        storage.replace(name, text.encode("utf-8", "replace"))

    def _place(self) -> tuple[Storage, str]:
        folder, slash, name = self.path.rpartition("/")
        return open_storage(folder or slash or ".", {}), name

    def _ensure_plain(self, folder: str, name: str) -> None:
        if not os.path.isdir(folder):
            raise self._refused("lies in a folder that does not exist")
        try:
            mode = os.lstat(os.path.join(folder, name)).st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._refused(f"cannot be looked at ({os.strerror(error.errno or 0)})") from error
        if not stat.S_ISREG(mode):
            raise self._refused("is there already, and is no plain file")

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(
            f"The metrics file {self.path!r} {why}.",
            where=self.path,
            safe="nothing was written there",
            next_step="give --metrics-file the path of a file, new or of metrics, in a folder "
            "that exists",
        )
