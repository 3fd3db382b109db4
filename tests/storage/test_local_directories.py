"""Directories of a disk come and go by themselves, as if there were none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lentic.storage import local
from lentic.storage.local import LocalStorage


def _write_stream(storage: LocalStorage, path: str) -> None:
    with storage.open_output(path) as sink:
        sink.write(b"new")


@pytest.mark.parametrize(
    "write",
    [
        lambda storage, path: storage.put_if_absent(path, b"new"),
        lambda storage, path: storage.replace(path, b"new"),
        _write_stream,
    ],
    ids=["put_if_absent", "replace", "open_output"],
)
def test_a_file_is_written_although_somebody_prunes_its_directory_before_it_is_there(
    tmp_path: Path, write: Callable[[LocalStorage, str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make_directory = local._make_directory

    def make_and_lose(directory: str) -> None:
        make_directory(directory)
        if len(made) < 3:
            other.prune("t")
        made.append(directory)

    storage, other = LocalStorage(str(tmp_path)), LocalStorage(str(tmp_path))
    monkeypatch.setattr(local, "_make_directory", make_and_lose)
    write(storage, "t/1/a")
    assert len(made) > 3
    assert storage.read("t/1/a") == b"new"
