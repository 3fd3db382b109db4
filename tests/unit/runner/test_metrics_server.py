"""GET /metrics and /healthz, and nothing else."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

import pytest

from lentic.errors import ConfigError
from lentic.runner.metrics_server import TEXT, serving

HOST = "127.0.0.1"
ANSWERS = {"/metrics": lambda: (200, 'a{t="é"} 1\n'), "/healthz": lambda: (503, "stopping\n")}


def _get(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    request = urllib.request.Request(f"http://{HOST}:{port}{path}", method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_are_answered_as_text() -> None:
    with serving(HOST, 0, ANSWERS) as port:
        assert _get(port, "/metrics") == (200, TEXT, 'a{t="é"} 1\n')
        assert _get(port, "/metrics?x=1")[0] == 200
        assert _get(port, "/healthz")[::2] == (503, "stopping\n")


@pytest.mark.parametrize("path", ["/", "/metrics/", "/../etc/passwd", "/metricsx"])
def test_other_paths_are_not_found(path: str) -> None:
    with serving(HOST, 0, ANSWERS) as port:
        assert _get(port, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(method: str) -> None:
    with serving(HOST, 0, ANSWERS) as port:
        assert _get(port, "/metrics", method)[0] == 501


def test_clients_that_say_nothing_do_not_keep_others_waiting() -> None:
    with serving(HOST, 0, ANSWERS) as port:
        silent = [socket.create_connection((HOST, port)) for _ in range(4)]
        try:
            assert _get(port, "/metrics")[0] == 200
        finally:
            for one in silent:
                one.close()


def test_a_port_that_is_taken_is_an_error_that_names_the_option() -> None:
    with (
        serving(HOST, 0, ANSWERS) as port,
        pytest.raises(ConfigError, match=str(port)) as refused,
        serving(HOST, port, ANSWERS),
    ):
        pass
    assert "--metrics-port" in str(refused.value)


def test_when_the_block_ends_nobody_answers() -> None:
    with serving(HOST, 0, ANSWERS) as port:
        pass
    with pytest.raises(OSError):
        socket.create_connection((HOST, port), timeout=30)
