"""The options of the ZooKeeper lock: what they say becomes servers and a path, or is refused."""

from __future__ import annotations

import pytest

from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
from lentic.config.zookeeper import ZooKeeperOptions
from lentic.errors import ConfigError

PREFIX = "hoodie.write.lock.zookeeper."


def _parse(name: str = "orders", **options: object) -> ZooKeeperOptions:
    given = {"url": "zk-1", "base_path": "/hudi/locks"} | options
    settings = resolve({PREFIX + key: value for key, value in given.items()}, REGISTRY)
    return ZooKeeperOptions.parse(settings, name)


def test_what_is_left_out_is_as_in_hudi() -> None:
    assert _parse() == ZooKeeperOptions("zk-1:2181", "/hudi/locks/orders", 60_000, 15_000)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("zk-1:2182", "zk-1:2182"),
        ("zk-1, zk-2:99 ,zk-3", "zk-1:2000,zk-2:99,zk-3:2000"),
        ("zk-1,zk-2/a/b/", "zk-1:2000,zk-2:2000/a/b"),
        ("[::1],[::2]:5", "[::1]:2000,[::2]:5"),
    ],
)
def test_the_port_goes_to_servers_that_have_none(url: str, hosts: str) -> None:
    assert _parse(url=url, port=2000).hosts == hosts


def test_the_lock_lies_where_hudi_looks_for_it() -> None:
    assert _parse(base_path="/locks/", lock_key="k").path == "/locks/k"
    assert _parse(lock_key="a/b").path == "/hudi/locks/a/b"


@pytest.mark.parametrize("missing", ["url", "base_path"])
def test_what_has_no_default_is_asked_for_by_name(missing: str) -> None:
    with pytest.raises(ConfigError, match=f"needs {PREFIX}{missing}"):
        _parse(**{missing: ""})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("url", "http://zk-1"),
        ("url", "user:secret@zk-1"),
        ("url", "zk-1,,zk-2"),
        ("url", "zk-1/a//b"),
        ("base_path", "locks"),
        ("base_path", "/a//b"),
        ("base_path", "/a/../b"),
        ("lock_key", "a\0"),
        ("lock_key", "."),
        ("port", 0),
        ("session_timeout_ms", "long"),
    ],
)
def test_what_is_no_place_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=PREFIX + key):
        _parse(**{key: value})
