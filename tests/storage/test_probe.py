"""A store that ignores conditions is found out before anybody relies on them (R19)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
from lentic.config.sharing import LockOptions, SharingOptions
from lentic.coordination.lock_process import ProcessLock
from lentic.coordination.lock_storage import StorageLock
from lentic.coordination.providers import choose_lock
from lentic.errors import ConfigError, UnsupportedFormat
from lentic.storage.local import LocalStorage
from lentic.storage.object_store import ObjectStorage
from lentic.storage.probe import keeps_conditions
from lentic.world import real_world
from tests.rfc.claims import says


class _Careless(ObjectStorage):
    """Takes conditional requests and overwrites all the same, as some stores do."""

    __slots__ = ()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.replace(path, data)
        return True

    def put_if_match(self, path: str, data: bytes, version: str | None) -> str | None:
        self.replace(path, data)
        now = self.read_version(path)
        assert now is not None
        return now.version


@pytest.fixture
def folder(s3_options: Any, request: pytest.FixtureRequest) -> tuple[str, Any]:
    return f"s3://lake/probe-{abs(hash(request.node.nodeid))}", s3_options


def _lock(storage: Any, **given: str) -> Any:
    settings = resolve({key.replace("__", "."): value for key, value in given.items()}, REGISTRY)
    options, sharing = LockOptions.parse(settings), SharingOptions.parse(settings)
    return choose_lock(storage, real_world(), options, sharing)


def test_a_store_with_conditions_passes_and_keeps_no_trace(folder: tuple[str, Any]) -> None:
    storage = ObjectStorage(*folder)
    assert keeps_conditions(storage, ".hoodie/.locks")
    assert storage.walk("") == []


@says("R19")
def test_a_store_without_is_read_only(folder: tuple[str, Any]) -> None:
    storage = _Careless(*folder)
    lock = _lock(storage)
    with pytest.raises(UnsupportedFormat, match="ignores their condition") as caught, lock.hold():
        pass
    assert "SINGLE_WRITER" in caught.value.next_step


def test_who_is_alone_by_word_may_write_there_and_is_reminded(
    folder: tuple[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    lock = _lock(_Careless(*folder), hoodie__write__concurrency__mode="SINGLE_WRITER")
    with caplog.at_level(logging.WARNING), lock.hold() as held:
        held.ensure_held()
    assert "promise of a single writer" in caplog.text


def test_the_lock_follows_from_where_the_table_lies(folder: tuple[str, Any], tmp_path: Any) -> None:
    inner = _lock(ObjectStorage(*folder)).inner
    assert isinstance(inner, StorageLock)
    named = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"
    assert isinstance(
        _lock(ObjectStorage(*folder), hoodie__write__lock__provider=named).inner, StorageLock
    )
    alone = _lock(ObjectStorage(*folder), hoodie__write__lock__provider="in_process")
    assert isinstance(alone.inner, ProcessLock)
    with pytest.raises(ConfigError, match="contradicts"):
        _lock(ObjectStorage(*folder), hoodie__write__lock__provider="file")
    with pytest.raises(ConfigError, match="contradicts"):
        _lock(LocalStorage(str(tmp_path)), hoodie__write__lock__provider="storage")
