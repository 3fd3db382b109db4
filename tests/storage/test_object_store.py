"""Object stores keep the storage contract: in memory and over the S3 protocol."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError

from lentic.errors import ConfigError, InvalidPath, StorageError
from lentic.storage.local import LocalStorage
from lentic.storage.object_store import ObjectStorage
from lentic.storage.open import open_storage
from lentic.testing.storage_contract import StorageContract
from tests.rfc.claims import says

_numbers = itertools.count()


@says("R19")
class TestObjectsInMemory(StorageContract):
    @pytest.fixture
    def storage(self) -> ObjectStorage:
        return ObjectStorage(f"memory://contract/{next(_numbers)}")


@says("R19")
class TestS3(StorageContract):
    @pytest.fixture
    def storage(self, s3_options: tuple[tuple[str, str], ...]) -> ObjectStorage:
        return ObjectStorage(f"s3://lake/some tables/t={next(_numbers)}", s3_options)

    def test_a_stream_in_several_parts_appears_whole(self, storage: ObjectStorage) -> None:
        piece = bytes(range(256)) * 4096
        with storage.open_output("big") as file:
            for _ in range(21):
                file.write(piece)
                assert storage.info("big") is None
        assert storage.read("big") == piece * 21

    def test_folders_are_listed_that_hold_something(self, storage: ObjectStorage) -> None:
        for path in ("a/x", "a/b/y", "c d/z", "top"):
            storage.put_if_absent(path, b"")
        assert storage.list_folders("") == ["a", "c d"]
        assert storage.list_folders("a") == ["a/b"]
        assert storage.list_folders("nowhere") == []

    def test_wrong_prefixes_do_not_see_each_other(self, storage: ObjectStorage) -> None:
        sibling = ObjectStorage(storage.url + "0", storage.options)
        sibling.put_if_absent("a", b"")
        assert storage.walk("") == []


# Unknown outcomes


@pytest.fixture
def storage() -> ObjectStorage:
    return ObjectStorage(f"memory://unknown/{next(_numbers)}")


Put = Callable[..., Any]


def _faulty(monkeypatch: pytest.MonkeyPatch, *faults: Callable[[Put], Any]) -> list[int]:
    """Each put meets the next fault; after the last one they all work. The list counts calls."""
    real, waiting, calls = obstore.put, list(faults), []

    def put(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if waiting:
            return waiting.pop(0)(lambda: real(*args, **kwargs))
        return real(*args, **kwargs)

    monkeypatch.setattr(obstore, "put", put)
    return calls


def _lose_request(send: Put) -> Any:
    raise GenericError("timed out")


def _lose_reply(send: Put) -> Any:
    send()
    raise GenericError("timed out")


def _repeat_inside_the_client(send: Put) -> Any:
    send()
    raise AlreadyExistsError("412 to the client's own second try")


def test_a_create_whose_reply_is_lost_is_recognised_as_ours(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _faulty(monkeypatch, _lose_reply)
    assert storage.put_if_absent("a", b"") is True
    assert len(calls) == 1
    assert storage.put_if_absent("a", b"") is False


def test_a_create_whose_request_is_lost_is_sent_again(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    _faulty(monkeypatch, _lose_request)
    assert storage.put_if_absent("a", b"1") is True
    assert storage.read("a") == b"1"


def test_a_create_that_meets_its_own_first_try_has_won(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    _faulty(monkeypatch, _repeat_inside_the_client)
    assert storage.put_if_absent("a", b"") is True


def test_an_unknown_outcome_beside_an_equal_file_of_another_writer_is_a_loss(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_wins(send: Put) -> Any:
        assert ObjectStorage(storage.url).put_if_absent("a", b"same")
        raise GenericError("timed out")

    _faulty(monkeypatch, other_wins)
    assert storage.put_if_absent("a", b"same") is False


def test_a_foreign_file_without_our_mark_is_a_loss(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.replace("a", b"foreign")
    assert storage.put_if_absent("a", b"mine") is False
    assert storage.read("a") == b"foreign"


def test_a_store_that_stays_away_is_an_error_that_forbids_deleting(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _faulty(monkeypatch, *[_lose_request] * 5)
    with pytest.raises(StorageError, match="timed out") as caught:
        storage.put_if_absent("a", b"")
    assert len(calls) == 2
    assert "unknown" in caught.value.safe
    assert "delete nothing" in caught.value.safe


# Secrets

_CANARY = "s3cr3t-canary"


def test_no_secret_shows_in_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = ObjectStorage(
        f"s3://user:{_CANARY}@bucket/table?sig={_CANARY}#{_CANARY}",
        (("endpoint", "http://127.0.0.1:1"), ("secret_access_key", _CANARY)),
    )
    assert storage.root == "s3://bucket/table"
    assert _CANARY not in repr(storage) + str(storage) + f"{[storage]}"

    def fail(*_: Any, **__: Any) -> None:
        url = f"https://user:{_CANARY}@host/c/x?sv=1&sig={_CANARY}"
        raise GenericError(f"PUT {url} with {_CANARY} failed\n\nDebug source:\n{_CANARY}")

    memory = ObjectStorage(f"memory://s/{next(_numbers)}", (("account_key", _CANARY),))
    monkeypatch.setattr(obstore, "put", fail)
    with pytest.raises(StorageError) as caught:
        memory.replace("a", b"")
    error = caught.value
    assert _CANARY not in str(error) + repr(error.to_fields()) + repr(error.__cause__)
    assert error.__suppress_context__


def test_a_pickled_storage_is_equal_and_carries_no_client(storage: ObjectStorage) -> None:
    storage.put_if_absent("a", b"")
    data = pickle.dumps(storage)
    assert pickle.loads(data) == storage
    assert len(data) < 300


def test_wrong_options_are_refused_without_telling_their_values() -> None:
    storage = ObjectStorage("s3://bucket/x", (("no_such_option", _CANARY),))
    with pytest.raises(ConfigError, match="no_such_option") as caught:
        storage.read("a")
    assert _CANARY not in str(caught.value)


def test_a_store_that_does_not_answer_is_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise GenericError("Connection refused")

    storage = ObjectStorage(f"memory://away/{next(_numbers)}")
    for name in ("get", "head", "list", "list_with_delimiter"):
        monkeypatch.setattr(obstore, name, lambda *_, **__: fail())
    for call in (
        storage.read,
        storage.open_input,
        storage.info,
        storage.list_files,
        storage.walk,
        storage.delete,
    ):
        with pytest.raises(StorageError, match="Connection refused") as caught:
            call("a")
        assert caught.value.where == f"{storage.root}/a"


# Choosing a storage


def test_the_scheme_chooses_the_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = LocalStorage(str(tmp_path / "t"))
    for path in ("t", f"{tmp_path}/t", f"file://{tmp_path}/t", f"file:{tmp_path}/t/"):
        assert open_storage(path, {}) == here
    assert open_storage(f"file://localhost{tmp_path}/t", {}) == here
    for scheme in ("s3", "s3a", "gs", "az", "abfs", "abfss", "memory"):
        url = f"{scheme}://bucket/table"
        assert open_storage(url, {"b": "2", "a": "1"}) == ObjectStorage(
            url, (("a", "1"), ("b", "2"))
        )


@pytest.mark.parametrize("path", ["ftp://host/x", "hdfs://nn/x", "http://host/x", "file://host/x"])
def test_an_unknown_scheme_is_refused_with_the_known_ones(path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_storage(path, {})
    assert "file://" in caught.value.next_step


def test_options_for_a_local_path_are_refused_by_name_only() -> None:
    with pytest.raises(ConfigError, match="account_key") as caught:
        open_storage("some/dir", {"account_key": _CANARY})
    assert _CANARY not in str(caught.value)


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(ConfigError):
        open_storage("", {})
    with pytest.raises(InvalidPath):
        open_storage("memory://x", {}).read("")
