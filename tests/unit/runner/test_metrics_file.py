"""The file of metrics takes nothing away that was no such file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from lentic.errors import ConfigError
from lentic.runner.metrics_file import MetricsFile


def _link_to_a_file(path: Path) -> None:
    (path.parent / "other").write_text("mine", "utf-8")
    path.symlink_to("other")


def _link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def _link_out(path: Path) -> None:
    path.symlink_to("/etc/hostname")


OTHERS: list[Callable[[Path], object]] = [
    Path.mkdir,
    os.mkfifo,
    _link_to_a_file,
    _link_to_nothing,
    _link_out,
]


@pytest.mark.parametrize("make", OTHERS)
def test_what_is_no_plain_file_is_refused_and_stays(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    path = tmp_path / "lentic.prom"
    make(path)
    before = path.lstat()
    for use in (MetricsFile(str(path)).ensure_usable, lambda: MetricsFile(str(path)).save("x")):
        with pytest.raises(ConfigError, match="no plain file") as refused:
            use()
        assert refused.value.where == str(path)
        assert refused.value.safe and refused.value.next_step
    assert path.lstat() == before


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
def test_a_device_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    (tmp_path / "device").touch()
    monkeypatch.setattr(
        "lentic.runner.metrics_file.os.lstat",
        lambda path: os.stat_result((kind | 0o666, *range(9))),
    )
    with pytest.raises(ConfigError, match="no plain file"):
        MetricsFile(str(tmp_path / "device")).ensure_usable()


@pytest.mark.parametrize("name", ["", "folder/", "missing/lentic.prom", "folder/..", "."])
def test_a_path_that_names_no_file_in_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="metrics file"):
        MetricsFile(name).ensure_usable()
    assert [path.name for path in tmp_path.iterdir()] == ["folder"], "no folder is made"


def test_a_new_file_and_one_of_before_are_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / "lentic.prom"), "lentic.prom"):
        for text in ("one\n", "two\n"):
            MetricsFile(path).save(text)
            assert (tmp_path / "lentic.prom").read_text("utf-8") == text
