"""A local directory keeps the storage contract, and what only a disk can get wrong."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lentic.errors import InvalidPath, MissingFile, StorageError
from lentic.storage.local import LocalStorage
from lentic.testing.storage_contract import StorageContract
from tests.rfc.claims import says


@says("R19")
class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> LocalStorage:
        return LocalStorage(str(tmp_path / "table"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    path.mkdir()
    return path


def _names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def test_a_root_that_is_a_link_is_followed(tmp_path: Path, root: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    assert LocalStorage(str(link)).put_if_absent("dir/a", b"1")
    assert (root / "dir/a").read_bytes() == b"1"


def _directories(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir())


def test_pruning_removes_directories_as_far_as_they_are_empty(root: Path) -> None:
    storage = LocalStorage(str(root))
    for path in ("t/1/p/q/a", "t/1/p/b", "t/1/z/c", "t/2/d"):
        storage.put_if_absent(path, b"")
    for path in ("t/1/p/q/a", "t/1/z/c"):
        storage.delete(path)
    storage.prune("t/1")
    assert _directories(root) == ["t", "t/1", "t/1/p", "t/2"]
    storage.delete("t/1/p/b")
    storage.prune("t/1")
    assert _directories(root) == ["t", "t/2"], "neither what is above nor what is beside it"


def test_a_directory_with_a_file_that_listings_hide_is_not_pruned(root: Path) -> None:
    storage = LocalStorage(str(root))
    (root / "dir").mkdir()
    hidden = root / "dir/.lentic-00.tmp"
    hidden.write_bytes(b"about to get its name")
    storage.prune("dir")
    assert hidden.read_bytes() == b"about to get its name"


def test_pruning_does_not_go_through_links(tmp_path: Path, root: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "empty").mkdir(parents=True)
    (root / "dir").mkdir()
    (root / "dir/link").symlink_to(outside)
    storage = LocalStorage(str(root))
    storage.prune("dir")
    with pytest.raises(InvalidPath, match="symbolic link"):
        storage.prune("dir/link/empty")
    assert (outside / "empty").is_dir()


@pytest.mark.parametrize("kind", ["directory", "file", "relative", "chain"])
def test_a_link_out_of_the_root_is_refused_by_every_call(
    tmp_path: Path, root: Path, kind: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    path = "link/secret"
    if kind == "directory":
        (root / "link").symlink_to(outside)
    elif kind == "relative":
        (root / "link").symlink_to("../outside")
    elif kind == "chain":
        (root / "second").symlink_to(outside)
        (root / "link").symlink_to("second")
    else:
        (root / "link").mkdir()
        (root / "link/secret").symlink_to(outside / "secret")
    storage = LocalStorage(str(root))
    for read in (storage.read, storage.open_input, storage.info):
        with pytest.raises(InvalidPath, match="symbolic link"):
            read(path)
    for listing in (storage.list_files, storage.walk):
        with pytest.raises(InvalidPath, match="symbolic link"):
            listing("link")
    with pytest.raises(InvalidPath, match="symbolic link"):
        storage.walk("")
    if kind == "file":
        assert storage.put_if_absent(path, b"x") is False
        storage.replace(path, b"x")  # replaces the link, not what it points to
        assert storage.read(path) == b"x"
    else:
        for write in (
            lambda: storage.put_if_absent("link/new", b"x"),
            lambda: storage.replace(path, b"x"),
            lambda: storage.open_output("link/new").__enter__(),
            lambda: storage.delete(path),
        ):
            with pytest.raises(InvalidPath, match="symbolic link"):
                write()
    assert _names(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_deleting_a_link_spares_its_target(tmp_path: Path, root: Path) -> None:
    (tmp_path / "target").write_bytes(b"kept")
    (root / "link").symlink_to(tmp_path / "target")
    assert LocalStorage(str(root)).delete("link") is True
    assert (tmp_path / "target").read_bytes() == b"kept"


def test_a_link_inside_the_root_is_read_but_walked_only_once(root: Path) -> None:
    storage = LocalStorage(str(root))
    storage.put_if_absent("real/a", b"1")
    (root / "alias").symlink_to("real")
    (root / "real/loop").symlink_to("..")
    assert storage.read("alias/a") == b"1"
    assert [info.path for info in storage.walk("")] == ["real/a"]


@pytest.mark.parametrize("call", ["put_if_absent", "replace", "open_output", "delete"])
def test_a_stale_hadoop_checksum_goes_with_its_file(root: Path, call: str) -> None:
    storage = LocalStorage(str(root))
    (root / ".a.crc").write_bytes(b"crc\0stale")
    (root / ".b.crc").write_bytes(b"crc\0of another file")
    if call == "put_if_absent":
        storage.put_if_absent("a", b"new")
    elif call == "open_output":
        with storage.open_output("a") as file:
            file.write(b"new")
    else:
        (root / "a").write_bytes(b"old")
        if call == "replace":
            storage.replace("a", b"new")
        else:
            storage.delete("a")
    assert _names(root) == sorted([".b.crc"] + ([] if call == "delete" else ["a"]))


def test_the_checksum_goes_before_the_file_changes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        assert not (root / ".a.crc").exists()
        raise OSError(errno.EIO, "Input/output error")

    storage = LocalStorage(str(root))
    (root / "a").write_bytes(b"old")
    (root / ".a.crc").write_bytes(b"crc\0")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError):
        storage.replace("a", b"new")
    assert _names(root) == ["a"]


def test_checksums_and_temporary_files_are_never_listed(root: Path) -> None:
    storage = LocalStorage(str(root))
    storage.put_if_absent("dir/.hidden", b"")
    storage.put_if_absent("dir/x.crc", b"")
    (root / "dir/.x.crc").write_bytes(b"")
    (root / "dir/.lentic-0011223344556677.tmp").write_bytes(b"left by a crash")
    assert [info.path for info in storage.list_files("dir")] == ["dir/.hidden", "dir/x.crc"]
    assert [info.path for info in storage.walk("")] == ["dir/.hidden", "dir/x.crc"]
    assert storage.put_if_absent("dir/new", b"1")


def test_a_lost_race_leaves_no_temporary_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(str(root))

    def link(source: str, target: str, **_: object) -> None:
        Path(target).write_bytes(b"winner")
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", link)
    assert storage.put_if_absent("a", b"loser") is False
    assert _names(root) == ["a"]
    assert storage.read("a") == b"winner"


def test_a_name_of_255_bytes_works(root: Path) -> None:
    storage = LocalStorage(str(root))
    assert storage.put_if_absent("x" * 255, b"1")
    storage.replace("x" * 255, b"2")
    assert storage.delete("x" * 255)


def test_an_output_never_takes_an_existing_name(root: Path) -> None:
    storage = LocalStorage(str(root))
    storage.put_if_absent("a", b"1")
    with pytest.raises(StorageError, match="exists"), storage.open_output("a"):
        raise AssertionError("the block must not run")
    assert storage.read("a") == b"1"


def test_a_directory_in_the_way_is_an_error_and_not_a_lost_race(root: Path) -> None:
    storage = LocalStorage(str(root))
    storage.put_if_absent("dir/a", b"")
    with pytest.raises(StorageError, match="directory"):
        storage.put_if_absent("dir", b"")
    with pytest.raises(StorageError, match="[Dd]irectory"):
        storage.put_if_absent("dir/a/b", b"")


def test_files_are_never_writable_by_everybody(root: Path) -> None:
    old = os.umask(0)
    try:
        storage = LocalStorage(str(root))
        storage.put_if_absent("dir/a", b"")
        storage.replace("dir/b", b"")
        with storage.open_output("dir/c"):
            pass
    finally:
        os.umask(old)
    assert [path for path in root.rglob("*") if path.stat().st_mode & 0o002] == []


@pytest.mark.parametrize(
    ("code", "advice"),
    [(errno.ENOSPC, "free disk space"), (errno.EACCES, "access"), (errno.EIO, "check the disk")],
)
def test_a_failing_write_says_what_to_do_and_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    storage = LocalStorage(str(root))
    monkeypatch.setattr(os, "fsync", fail)
    for write in (storage.put_if_absent, storage.replace):
        with pytest.raises(StorageError, match=os.strerror(code)) as caught:
            write("a", b"x")
        assert caught.value.where == "a"
        assert advice in caught.value.next_step
        assert "look before you repeat" in caught.value.safe
    with pytest.raises(StorageError, match=os.strerror(code)), storage.open_output("b") as file:
        file.write(b"x")
    assert _names(root) == []


def test_a_full_disk_in_the_middle_of_a_stream_is_a_storage_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def open_on_a_full_disk(path: str, flags: int, mode: int = 0o777) -> int:
        os.close(real_open(path, flags, mode))
        return real_open("/dev/full", os.O_WRONLY)

    storage = LocalStorage(str(root))
    monkeypatch.setattr(os, "open", open_on_a_full_disk)
    with pytest.raises(StorageError, match="No space left") as caught:  # noqa: SIM117
        with storage.open_output("a") as file:
            for _ in range(1000):
                file.write(b"x" * 1000)
    assert caught.value.next_step.startswith("free disk space")
    assert _names(root) == []


def test_an_error_of_the_caller_keeps_its_own_type(root: Path) -> None:
    storage = LocalStorage(str(root))
    with pytest.raises(ConnectionError), storage.open_output("a"):
        raise ConnectionError("from somewhere else")
    assert _names(root) == []


def test_a_file_deleted_while_it_is_read_stays_readable(root: Path) -> None:
    storage = LocalStorage(str(root))
    storage.put_if_absent("a", b"content")
    with storage.open_input("a") as file:
        storage.delete("a")
        assert file.read() == b"content"
    with pytest.raises(MissingFile):
        storage.read("a")


# Killed with SIGKILL at each system call that matters. The child process counts them; the parent
# looks at what is on disk. `flow` reports after the call returned, which nobody may see undone.
_KILLED_FLOWS = """
import os, signal, sys
from lentic.storage import local
from lentic.storage.local import LocalStorage

root, flow = sys.argv[1], sys.argv[2]

def kill_at(step):
    count = 0
    def counted(original):
        def call(*args, **kwargs):
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)
        return call
    for name in ("fsync", "link", "unlink", "replace", "mkdir", "open"):
        setattr(os, name, counted(getattr(os, name)))

def run(storage):
    if flow == "put_if_absent":
        return storage.put_if_absent("new/a", b"new" * 1000)
    if flow == "replace":
        return storage.replace("a", b"new" * 1000)
    with storage.open_output("new/a") as file:
        file.write(b"new" * 1000)

for step in range(1, 100):
    table = os.path.join(root, str(step))
    storage = LocalStorage(table)
    storage.put_if_absent("a", b"old")
    child = os.fork()
    if child == 0:
        kill_at(step)
        run(storage)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(step)
        break
"""


@says("R19")
@pytest.mark.parametrize("flow", ["put_if_absent", "replace", "open_output"])
def test_a_kill_between_any_two_steps_leaves_whole_content_or_none(
    tmp_path: Path, flow: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_FLOWS, str(tmp_path), flow],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    steps = int(done.stdout)
    assert steps > 4
    whole = b"new" * 1000
    for step in range(1, steps + 1):
        storage = LocalStorage(str(tmp_path / str(step)))
        found = {info.path: storage.read(info.path) for info in storage.walk("")}
        target = "a" if flow == "replace" else "new/a"
        if flow == "replace":
            assert found["a"] in (b"old", whole)
        elif flow == "put_if_absent":
            assert found.get("new/a", whole) == whole
            assert storage.put_if_absent("new/a", whole) is ("new/a" not in found)
        else:  # a stream may leave a part, under a name that nobody else uses
            assert whole.startswith(found.get("new/a", b""))
        assert set(found) <= {"a", target}
        if step == steps:
            assert found[target] == whole
