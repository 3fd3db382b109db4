"""Memory keeps the storage contract."""

from __future__ import annotations

import pickle

import pytest

from lentic.errors import StorageError
from lentic.storage.memory import MemoryStorage
from lentic.testing.storage_contract import StorageContract
from tests.rfc.claims import says


@says("R19")
class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> MemoryStorage:
        return MemoryStorage()


def test_two_memories_share_nothing() -> None:
    one, other = MemoryStorage(), MemoryStorage()
    one.put_if_absent("a", b"1")
    assert other.walk("") == []
    assert one.root != other.root


def test_files_are_dated_by_the_given_clock() -> None:
    times = iter([100, 50])
    storage = MemoryStorage(now_ms=lambda: next(times))
    storage.replace("a", b"")
    storage.replace("b", b"")
    assert [info.modified_ms for info in storage.walk("")] == [100, 50]


def test_without_a_clock_later_files_have_later_times() -> None:
    storage = MemoryStorage()
    for name in "abc":
        storage.put_if_absent(name, b"")
    times = [info.modified_ms for info in storage.walk("")]
    assert times == sorted(set(times))


def test_an_output_never_takes_an_existing_name() -> None:
    storage = MemoryStorage()
    storage.put_if_absent("a", b"1")
    with pytest.raises(StorageError, match="exists"), storage.open_output("a"):
        raise AssertionError("the block must not run")
    with pytest.raises(StorageError, match="exists"), storage.open_output("b") as file:
        file.write(b"mine")
        storage.put_if_absent("b", b"theirs")
    assert (storage.read("a"), storage.read("b")) == (b"1", b"theirs")


def test_a_memory_that_is_gone_cannot_be_unpickled() -> None:
    pickled = pickle.dumps(MemoryStorage())
    with pytest.raises(StorageError, match="another process"):
        pickle.loads(pickled)
