"""The options of the ZooKeeper lock: where the servers are, and where on them the lock lies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

from lentic.config.options import Option, Settings, parse_whole
from lentic.errors import ConfigError

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:@/\[\]]+)(:\d+)?")
_SEGMENT = re.compile(r"(?!\.{1,2}$)[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+")


def _hosts(text: str) -> str:
    hosts, slash, chroot = text.strip().partition("/")
    if text and not all(_HOST.fullmatch(host) for host in _split(hosts)):
        raise ValueError("it must be a host or hosts with commas, each perhaps with :port")
    return ",".join(_split(hosts)) + _path(slash + chroot)


def _split(hosts: str) -> list[str]:
    return [host.strip() for host in hosts.split(",")]


def _path(text: str) -> str:
    if text and not text.startswith("/"):
        raise ValueError("it must begin with /")
    name = _name(text.strip("/"))
    return name and f"/{name}"


def _name(text: str) -> str:
    if text and not all(_SEGMENT.fullmatch(segment) for segment in text.split("/")):
        raise ValueError("it is no path of ZooKeeper")
    return text


URL = Option(
    "hoodie.write.lock.zookeeper.url",
    _hosts,
    "",
    "Servers of the lock zookeeper: host:port, several with commas, at the end /chroot if they "
    "have one.",
)
PORT = Option(
    "hoodie.write.lock.zookeeper.port",
    parse_whole(1, 65_535),
    2181,
    "Port of servers that the url names without one. Apache Hudi reads it from the url alone.",
)
BASE_PATH = Option(
    "hoodie.write.lock.zookeeper.base_path",
    _path,
    "",
    "Where the locks lie on the servers; the same for all writers of a table.",
)
LOCK_KEY = Option(
    "hoodie.write.lock.zookeeper.lock_key",
    _name,
    "",
    "Name of the table's lock under the base path; unless told, the table's name.",
)
SESSION_TIMEOUT_MS = Option(
    "hoodie.write.lock.zookeeper.session_timeout_ms",
    parse_whole(100, 3_600_000),
    60_000,
    "How long a writer may be silent before it loses the lock. Servers have bounds of their own.",
)
CONNECTION_TIMEOUT_MS = Option(
    "hoodie.write.lock.zookeeper.connection_timeout_ms",
    parse_whole(100, 3_600_000),
    15_000,
    "How long to wait for the servers to answer.",
)

ZOOKEEPER: tuple[Option[Any], ...] = (
    URL,
    PORT,
    BASE_PATH,
    LOCK_KEY,
    SESSION_TIMEOUT_MS,
    CONNECTION_TIMEOUT_MS,
)


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """The table's lock on ZooKeeper."""

    hosts: str
    path: str
    session_timeout_ms: int
    connection_timeout_ms: int

    @classmethod
    def parse(cls, settings: Settings, table_name: str) -> Self:
        """`ConfigError` if an option that has no default is missing."""
        for option in (URL, BASE_PATH):
            if not option.of(settings):
                raise ConfigError(
                    f"The lock zookeeper needs {option.key}.",
                    safe="nothing was written",
                    next_step=f"set {URL.key} and {BASE_PATH.key} to what the other writers of the "
                    "table use",
                )
        key = LOCK_KEY.of(settings) or LOCK_KEY.of(Settings({LOCK_KEY.key: table_name}))
        return cls(
            hosts=_with_port(URL.of(settings), PORT.of(settings)),
            path=f"{BASE_PATH.of(settings)}/{key}",
            session_timeout_ms=SESSION_TIMEOUT_MS.of(settings),
            connection_timeout_ms=CONNECTION_TIMEOUT_MS.of(settings),
        )


def _with_port(url: str, port: int) -> str:
    hosts, slash, chroot = url.partition("/")
    named = [h if re.search(r":\d+$", h) else f"{h}:{port}" for h in _split(hosts)]
    return ",".join(named) + slash + chroot
