"""The proxy before an object store spoils what it should, as it should, and nothing else."""

from __future__ import annotations

import contextlib
import http.client
from collections import Counter
from urllib.parse import urlsplit

import pytest

from lentic.errors import StorageError
from lentic.storage.object_store import ObjectStorage
from tests.storage.s3_server import BUCKET
from tests.writers.proxy import Fault, FaultProxy, Plan, running_proxy

NEVER = 10**9
_GONE = (http.client.RemoteDisconnected, ConnectionError)


def upstream_port(options: dict[str, str]) -> int:
    port = urlsplit(options["endpoint"]).port
    assert port is not None
    return port


def through(proxy: FaultProxy, options: dict[str, str], name: str) -> ObjectStorage:
    led = options | {"endpoint": proxy.endpoint}
    return ObjectStorage(f"s3://{BUCKET}/{name}", tuple(sorted(led.items())))


def ask(proxy: FaultProxy, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_one_request_in_so_many_is_spoilt_as_the_seed_says() -> None:
    plan = Plan(seed=7, one_in=10)
    first = [plan.fault(number) for number in range(1000)]
    assert first == [Plan(seed=7, one_in=10).fault(number) for number in range(1000)]
    assert first != [Plan(seed=8, one_in=10).fault(number) for number in range(1000)]
    for start in range(0, 1000, 10):
        assert sum(fault is not None for fault in first[start : start + 10]) == 1
    assert set(first) == {*Fault, None}


def test_without_faults_everything_passes(s3_options: dict[str, str]) -> None:
    with running_proxy(upstream_port(s3_options), Plan(one_in=NEVER)) as proxy:
        storage = through(proxy, s3_options, "clear")
        assert storage.put_if_absent("a", b"1" * 100_000)
        assert not storage.put_if_absent("a", b"2")
        with storage.open_output("deep/b") as file:
            file.write(b"3" * (11 * 1024 * 1024))  # in parts
        info = storage.info("deep/b")
        assert info is not None and info.size == 11 * 1024 * 1024
        assert storage.read("a") == b"1" * 100_000
        assert [file.path for file in storage.walk("")] == ["a", "deep/b"]
        assert storage.delete("a")
        assert storage.info("a") is None
        assert proxy.requests > 8
        assert not proxy.counts


@pytest.mark.parametrize("fault", Fault)
def test_only_a_lost_reply_reaches_the_store(fault: Fault, s3_options: dict[str, str]) -> None:
    path = f"/{BUCKET}/single/{fault.name}"
    plan = Plan(one_in=1, faults=[fault], silence_s=0.01)
    with running_proxy(upstream_port(s3_options), plan) as proxy:
        statuses = {Fault.CONFLICT: 409, Fault.ERROR: 500, Fault.SLOW_DOWN: 503}
        if fault in statuses:
            status, body = ask(proxy, "PUT", path, b"x")
            assert (status, b"<Code>" in body) == (statuses[fault], True)
        else:
            with pytest.raises(_GONE):
                ask(proxy, "PUT", path, b"x")
        proxy.is_armed = False
        is_there = through(proxy, s3_options, "single").info(fault.name) is not None
        assert is_there == (fault is Fault.LOST_REPLY)
        assert proxy.counts == Counter({fault: 1})


@pytest.mark.parametrize("fault", Fault)
def test_creating_is_exact_under_every_fault(fault: Fault, s3_options: dict[str, str]) -> None:
    """One request in three is spoilt: who is told that it created has, and nobody else."""
    plan = Plan(seed=1, one_in=3, faults=[fault], silence_s=0.05)
    with running_proxy(upstream_port(s3_options), plan) as proxy:
        storage = through(proxy, s3_options, f"create/{fault.name}")
        told: dict[str, list[bytes]] = {}
        doubtful = set[str]()
        for number in range(9):
            name, content = f"n{number // 3}", str(number).encode()
            try:
                if storage.put_if_absent(name, content):
                    told.setdefault(name, []).append(content)
                else:
                    assert name in told or name in doubtful, f"{name} cannot be taken yet"
            except StorageError:
                doubtful.add(name)
        proxy.is_armed = False
        for name, contents in told.items():
            assert contents == [storage.read(name)]
        for name in {f"n{number}" for number in range(3)} - told.keys():
            assert name in doubtful, f"{name} was created by nobody, and nobody was told so"
        assert proxy.counts.total() >= 3 and proxy.counts[fault]
