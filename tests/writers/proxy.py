"""A proxy before an object store that spoils one request in every `one_in`, by a seed.

It speaks HTTP/1.1 on 127.0.0.1 and passes requests on as they came, `Host` and signature included.
What happens to a request is a pure function of the seed and its number, so how many faults there
are of which kind does not depend on chance; which request has which number does, where clients run
at the same time.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATIENCE_S = 60.0
_BODY_MAX = 64 * 1024 * 1024
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class Fault(StrEnum):
    """What becomes of a request. Only `LOST_REPLY` reaches the store."""

    DROP = "connection dropped"
    SILENCE = "no answer for a while, then the connection is dropped"
    CONFLICT = "409"
    ERROR = "500"
    SLOW_DOWN = "503"
    LOST_REPLY = "carried out, but the reply is lost"


_ANSWERS = {
    Fault.CONFLICT: (409, "ConditionalRequestConflict"),
    Fault.ERROR: (500, "InternalError"),
    Fault.SLOW_DOWN: (503, "SlowDown"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Which requests are spoilt, and how."""

    seed: int = 0
    one_in: int = 50
    faults: Sequence[Fault] = tuple(Fault)
    silence_s: float = 1.0

    def fault(self, number: int) -> Fault | None:
        """What happens to request `number`, the first being 0: one in each run of `one_in`."""
        block, place = divmod(number, self.one_in)
        chance = random.Random(f"{self.seed}/{block}")
        return chance.choice(self.faults) if chance.randrange(self.one_in) == place else None


@dataclass(slots=True)
class FaultProxy:
    """A running proxy. Faults begin and end with `is_armed`."""

    upstream_port: int
    plan: Plan
    port: int = 0
    is_armed: bool = True
    requests: int = 0
    numbered: int = 0
    counts: Counter[Fault] = field(default_factory=Counter)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def next_fault(self, method: str) -> Fault | None:
        """Give the next request its number. No store answers a read with a conflict."""
        with self._turn:
            self.requests += 1
            if not self.is_armed:
                return None
            fault = self.plan.fault(self.numbered)
            self.numbered += 1
            if fault is Fault.CONFLICT and method in ("GET", "HEAD"):
                fault = Fault.SLOW_DOWN
            if fault is not None:
                self.counts[fault] += 1
            return fault


@contextmanager
def running_proxy(upstream_port: int, plan: Plan) -> Iterator[FaultProxy]:
    """A proxy before 127.0.0.1:`upstream_port`, gone with all its threads afterwards."""
    proxy = FaultProxy(upstream_port, plan)

    class Handler(_Handler):
        state = proxy

    server = _Server(("127.0.0.1", 0), Handler)
    proxy.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.close_connections()
        server.server_close()
        thread.join(PATIENCE_S)


class _Server(ThreadingHTTPServer):
    """Remembers its connections: clients keep them open, so they must be closed at the end."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        super().__init__(address, handler)
        self.connections = set[socket.socket]()

    def close_connections(self) -> None:
        for connection in tuple(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    state: FaultProxy
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with suppress(OSError):  # the client has gone
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        body = self._body()
        fault = self.state.next_fault(self.command)
        if fault in _ANSWERS:
            status, code = _ANSWERS[fault]
            told = f"<Error><Code>{code}</Code><Message>planted</Message></Error>".encode()
            self._reply(status, [("Content-Type", "application/xml")], told)
        elif fault in (Fault.DROP, Fault.SILENCE):
            if fault is Fault.SILENCE:
                time.sleep(self.state.plan.silence_s)
            self._drop()
        else:
            status, headers, content = self._forward(body)
            if fault is Fault.LOST_REPLY:
                self._drop()
            else:
                self._reply(status, headers, content)

    do_PUT = do_POST = do_HEAD = do_DELETE = do_GET

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            return b"".join(self._chunks())
        length = int(self.headers.get("Content-Length", 0))
        assert 0 <= length <= _BODY_MAX, length
        return self.rfile.read(length)

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(64).partition(b";")[0], 16):
            assert size <= _BODY_MAX, size
            yield self.rfile.read(size)
            self.rfile.readline(8)
        self.rfile.readline(8)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection(
            "127.0.0.1", self.state.upstream_port, timeout=PATIENCE_S
        )
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    upstream.putheader(name, value)
            upstream.putheader("Content-Length", str(len(body)))
            upstream.endheaders(body)
            answer = upstream.getresponse()
            content = answer.read()
            kept = [(n, v) for n, v in answer.getheaders() if n.lower() not in _HOP_BY_HOP]
            if self.command == "HEAD":
                kept.append(("Content-Length", answer.getheader("Content-Length") or "0"))
            return answer.status, kept, content
        finally:
            upstream.close()

    def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _drop(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
