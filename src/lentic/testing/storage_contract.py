"""The contract of `lentic.storage.base.Storage`, as tests that any backend can inherit.

Override the fixture `storage` with an empty storage, and pytest runs every guarantee against it:

    class TestMyStorage(StorageContract):
        @pytest.fixture
        def storage(self, tmp_path):
            return MyStorage(str(tmp_path))
"""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lentic.errors import InvalidPath, MissingFile, StorageError
from lentic.storage.base import Storage

HOSTILE_PATHS = (
    ".",
    "..",
    "../x",
    "../../../../etc/passwd",
    "a/..",
    "a/../x",
    "a/../../x",
    "a/b/../../..",
    " /../x",
    ".hoodie/../../x",
    "./a",
    "a/./b",
    "a/.",
    "/",
    "/etc/passwd",
    "//a",
    "a//b",
    "a/",
    "a/b//",
    "a\0b",
    "\0",
    "a\nb",
    "a\rb",
    "a\tb",
    "\x01",
    "a\x1fb",
    "a\x7f",
    "a\\b",
    "..\\x",
    "\\\\host\\share",
    "x" * 256,
    "a/" + "y" * 300,
    "ü" * 128,
)

PLAIN_PATHS = (
    "file",
    "with space/and more.txt",
    " leading and trailing ",
    "date=2024-01-01/hour=7/x.parquet",
    "percent/100%/%20/%2e%2e/a%2Fb",
    "marks/+&#?;:,@!$'()[]{}~^`|<>\"*",
    "Grüße/日本語/☃/🙂.log",
    "e\u0301 is not \u00e9",
    ".hoodie/.aux/.hidden",
    "..dots/.../x..",
    "deep/" + "/".join("abcdefghij"),
    "n" * 200,
)

_BIG = bytes(range(256)) * 20_480  # 5 MiB


def _write(storage: Storage, path: str, data: bytes) -> None:
    with storage.open_output(path) as file:
        file.write(data)


_ANY_PATH_CALLS: dict[str, Callable[[Storage, str], object]] = {
    "read": lambda storage, path: storage.read(path),
    "open_input": lambda storage, path: storage.open_input(path),
    "info": lambda storage, path: storage.info(path),
    "list_files": lambda storage, path: storage.list_files(path),
    "walk": lambda storage, path: storage.walk(path),
    "put_if_absent": lambda storage, path: storage.put_if_absent(path, b"x"),
    "replace": lambda storage, path: storage.replace(path, b"x"),
    "open_output": lambda storage, path: _write(storage, path, b"x"),
    "delete": lambda storage, path: storage.delete(path),
    "prune": lambda storage, path: storage.prune(path),
}
_FILE_CALLS = {
    name: call for name, call in _ANY_PATH_CALLS.items() if name not in ("list_files", "walk")
}
_WRITERS: dict[str, Callable[[Storage, str, bytes], object]] = {
    "put_if_absent": lambda storage, path, data: storage.put_if_absent(path, data),
    "replace": lambda storage, path, data: storage.replace(path, data),
    "open_output": _write,
}


def _paths(storage: Storage, directory: str = "") -> list[str]:
    return [info.path for info in storage.walk(directory)]


def _in_threads(count: int, work: Callable[[int], bool]) -> list[bool]:
    """`work(0)` … `work(count - 1)`, started together."""
    start = threading.Barrier(count)

    def begin(number: int) -> bool:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


class StorageContract:
    """Inherit, override `storage`, and name the subclass `Test…`."""

    @pytest.fixture
    def storage(self) -> Storage:
        pytest.fail("override the fixture `storage` with an empty storage of your own")

    # Creating once

    def test_put_if_absent_creates_once_and_keeps_the_first_content(self, storage: Storage) -> None:
        assert storage.put_if_absent("dir/a", b"first") is True
        assert storage.put_if_absent("dir/a", b"second") is False
        assert storage.read("dir/a") == b"first"
        assert _paths(storage) == ["dir/a"]

    @pytest.mark.parametrize("is_same_content", [False, True])
    def test_exactly_one_of_eight_threads_creates_a_file(
        self, storage: Storage, is_same_content: bool
    ) -> None:
        contents = [b"" if is_same_content else b"by %d" % number for number in range(8)]
        for round_ in range(5):
            path = f"race/{round_}"
            won = _in_threads(8, lambda n, path=path: storage.put_if_absent(path, contents[n]))  # type: ignore[misc]
            assert won.count(True) == 1
            assert storage.read(path) == contents[won.index(True)]
        assert len(_paths(storage)) == 5

    def test_a_file_can_be_created_again_after_its_deletion(self, storage: Storage) -> None:
        assert storage.put_if_absent("a", b"1")
        assert storage.delete("a")
        assert storage.put_if_absent("a", b"2")
        assert storage.read("a") == b"2"

    # Whole content

    @pytest.mark.parametrize("writer", ["put_if_absent", "replace"])
    def test_readers_never_see_a_part_of_a_new_file(self, storage: Storage, writer: str) -> None:
        content = _BIG[: 1 << 20]

        def work(number: int) -> bool:
            if number == 0:
                _WRITERS[writer](storage, "whole", content)
                return True
            for _ in range(400):
                try:
                    return storage.read("whole") == content
                except MissingFile:
                    continue
            return True  # the writer was slow: nothing was seen, so nothing wrong

        assert all(_in_threads(3, work))
        assert storage.read("whole") == content

    def test_readers_of_a_replaced_file_see_old_or_new_and_no_mixture(
        self, storage: Storage
    ) -> None:
        contents = [b"a" * 200_000, b"b" * 150_000]
        storage.replace("file", contents[0])

        def work(number: int) -> bool:
            if number == 0:
                for round_ in range(20):
                    storage.replace("file", contents[round_ % 2])
                return True
            return all(storage.read("file") in contents for _ in range(20))

        assert all(_in_threads(3, work))

    def test_replace_creates_and_overwrites(self, storage: Storage) -> None:
        storage.replace("dir/a", b"old and long")
        storage.replace("dir/a", b"new")
        assert storage.read("dir/a") == b"new"
        assert _paths(storage) == ["dir/a"]

    @pytest.mark.parametrize("writer", sorted(_WRITERS))
    @pytest.mark.parametrize("data", [b"", b"\0", _BIG], ids=["empty", "one byte", "5 MiB"])
    def test_content_comes_back_as_written(
        self, storage: Storage, writer: str, data: bytes
    ) -> None:
        _WRITERS[writer](storage, "dir/file", data)
        assert storage.read("dir/file") == data
        info = storage.info("dir/file")
        assert info is not None
        assert (info.path, info.size) == ("dir/file", len(data))
        with storage.open_input("dir/file") as file:
            assert file.read() == data

    # Streams

    def test_an_output_grows_by_many_writes(self, storage: Storage) -> None:
        pieces = [bytes([number % 256]) * number for number in range(500)]
        with storage.open_output("out") as file:
            for piece in pieces:
                assert file.write(piece) == len(piece)
        assert storage.read("out") == b"".join(pieces)

    def test_an_output_may_be_closed_inside_its_block(self, storage: Storage) -> None:
        with storage.open_output("out") as file:
            file.write(b"content")
            file.close()
        assert storage.read("out") == b"content"

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    @pytest.mark.parametrize("size", [10, len(_BIG)])
    def test_an_exception_inside_an_output_leaves_no_file(
        self, storage: Storage, error: type[BaseException], size: int
    ) -> None:
        with pytest.raises(error), storage.open_output("dir/out") as file:
            file.write(_BIG[:size])
            raise error("stop")
        assert storage.info("dir/out") is None
        assert _paths(storage) == []
        _write(storage, "dir/out", b"again")
        assert storage.read("dir/out") == b"again"

    def test_an_input_seeks_like_a_file(self, storage: Storage) -> None:
        storage.put_if_absent("big", _BIG)
        expected = io.BytesIO(_BIG)
        moves = [(0, 0, 4), (-8, 2, 8), (100, 0, 1 << 20), (-50, 1, 100), (3, 1, 0), (10, 2, 5)]
        with storage.open_input("big") as file:
            assert file.seekable()
            for offset, whence, size in moves:
                assert file.seek(offset, whence) == expected.seek(offset, whence)
                assert file.read(size) == expected.read(size)
                assert file.tell() == expected.tell()
            file.seek(len(_BIG) - 3)
            assert file.read() == _BIG[-3:]
            assert file.read(1) == b""

    def test_parquet_passes_through_output_and_input(self, storage: Storage) -> None:
        table = pa.table({"key": [f"k{n}" for n in range(5000)], "value": list(range(5000))})
        with storage.open_output("part=1/x.parquet") as file:
            pq.write_table(table, file, row_group_size=1000)
        with storage.open_input("part=1/x.parquet") as file:
            assert pq.ParquetFile(file).read().equals(table)
        with storage.open_input("part=1/x.parquet") as file:
            column = pq.ParquetFile(file).read_row_group(2, columns=["value"])
            assert column.column("value").to_pylist() == list(range(2000, 3000))

    # Listing

    @pytest.mark.parametrize("writer", sorted(_WRITERS))
    def test_a_file_is_listed_as_soon_as_its_creation_returned(
        self, storage: Storage, writer: str
    ) -> None:
        for number in range(10):
            _WRITERS[writer](storage, f"dir/{number}", b"x")
            assert len(storage.list_files("dir")) == number + 1
        for number in range(10):
            storage.delete(f"dir/{number}")
            assert len(storage.list_files("dir")) == 9 - number

    def test_listings_are_sorted_and_tell_sizes(self, storage: Storage) -> None:
        paths = ["b", "a/z", "a/b/c", "a/b/a", "a-b", "a/b.x", "ab/c"]
        for number, path in enumerate(paths):
            storage.put_if_absent(path, b"x" * number)
        assert _paths(storage) == sorted(paths)
        assert _paths(storage, "a") == ["a/b.x", "a/b/a", "a/b/c", "a/z"]
        assert _paths(storage, "a/b") == ["a/b/a", "a/b/c"]
        assert [info.path for info in storage.list_files("")] == ["a-b", "b"]
        assert [info.path for info in storage.list_files("a")] == ["a/b.x", "a/z"]
        assert {info.path: info.size for info in storage.walk("")} == {
            path: number for number, path in enumerate(paths)
        }
        assert storage.walk("") == [storage.info(path) for path in sorted(paths)]

    def test_a_missing_directory_lists_empty(self, storage: Storage) -> None:
        storage.put_if_absent("a/file", b"")
        for directory in ("nowhere", "a/nowhere", "a/file", "a/file/deeper"):
            assert storage.list_files(directory) == []
            assert storage.walk(directory) == []

    # Absence

    def test_a_missing_file_is_reported_as_missing(self, storage: Storage) -> None:
        storage.put_if_absent("there", b"")
        for path in ("gone", "no/such/dir", "there/deeper"):
            with pytest.raises(MissingFile, match=path):
                storage.read(path)
            with pytest.raises(MissingFile, match=path):
                storage.open_input(path)
            assert storage.info(path) is None

    def test_deleting_twice_is_no_error(self, storage: Storage) -> None:
        storage.put_if_absent("dir/a", b"")
        assert storage.delete("dir/a") is True
        assert storage.delete("dir/a") is False
        assert storage.delete("no/such/dir") is False
        assert storage.info("dir/a") is None

    def test_a_directory_is_no_file(self, storage: Storage) -> None:
        storage.put_if_absent("dir/a", b"x")
        assert storage.info("dir") is None
        assert storage.delete("dir") is False
        with pytest.raises(StorageError):
            storage.read("dir")
        assert storage.read("dir/a") == b"x"

    # Tidiness

    def test_pruning_takes_no_file_away(self, storage: Storage) -> None:
        paths = ["a/b/c/file", "a/file", "b/file"]
        for path in paths:
            storage.put_if_absent(path, path.encode())
        for directory in ("a", "a/b", "a/b/c", "b", "a/file", "a/b/c/file", "nowhere", "a/nowhere"):
            storage.prune(directory)
        assert _paths(storage) == paths
        assert [storage.read(path) for path in paths] == [path.encode() for path in paths]

    def test_a_pruned_directory_lists_empty_and_can_be_filled_again(self, storage: Storage) -> None:
        for _ in range(2):
            assert storage.put_if_absent("dir/deep/a", b"1")
            _write(storage, "dir/b", b"2")
            for path in ("dir/deep/a", "dir/b"):
                assert storage.delete(path)
            storage.prune("dir")
            storage.prune("dir")
            assert storage.walk("dir") == storage.list_files("dir") == storage.walk("") == []
            assert storage.info("dir") is None
        storage.replace("dir", b"a file of that name")
        assert storage.read("dir") == b"a file of that name"

    # Names

    @pytest.mark.parametrize("path", PLAIN_PATHS)
    def test_any_plain_name_is_kept_as_it_is(self, storage: Storage, path: str) -> None:
        assert storage.put_if_absent(path, b"1")
        assert not storage.put_if_absent(path, b"2")
        assert _paths(storage) == [path]
        directory = path.rpartition("/")[0]
        assert [info.path for info in storage.list_files(directory)] == [path]
        storage.replace(path, b"3")
        assert storage.read(path) == b"3"
        assert storage.delete(path)
        _write(storage, path, b"4")
        with storage.open_input(path) as file:
            assert file.read() == b"4"

    @pytest.mark.parametrize("path", HOSTILE_PATHS)
    def test_a_path_out_of_the_root_is_refused_by_every_call(
        self, storage: Storage, path: str
    ) -> None:
        storage.put_if_absent("x", b"kept")
        for call in _ANY_PATH_CALLS.values():
            with pytest.raises(InvalidPath):
                call(storage, path)
        assert _paths(storage) == ["x"]
        assert storage.read("x") == b"kept"

    def test_the_root_itself_can_only_be_listed(self, storage: Storage) -> None:
        for call in _FILE_CALLS.values():
            with pytest.raises(InvalidPath):
                call(storage, "")
        assert storage.list_files("") == storage.walk("") == []

    # Travelling to workers

    def test_a_pickled_storage_reaches_the_same_files(self, storage: Storage) -> None:
        storage.put_if_absent("a", b"1")
        copy: Storage = pickle.loads(pickle.dumps(storage))
        assert copy.root == storage.root
        assert copy.read("a") == b"1"
        assert copy.put_if_absent("b", b"2")
        assert storage.read("b") == b"2"
