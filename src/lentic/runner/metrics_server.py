"""GET /metrics and /healthz over HTTP: the one door through which this package answers requests.

It reads nothing of a request but its method and path, and changes nothing. A few requests are
answered at the same time, others are turned away, and one that does not come to its end is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Thread
from typing import Any

from lentic.errors import ConfigError

TEXT = "text/plain; version=0.0.4; charset=utf-8"
_AT_ONCE = 8
_TIMEOUT_S = 5.0

Answer = Callable[[], tuple[int, str]]
"""Status and text."""


@contextmanager
def serving(host: str, port: int, answers: dict[str, Answer]) -> Iterator[int]:
    """Answer in the background while the block runs; the port, which the system chooses for 0."""
    try:
        server = _Server((host, port), answers)
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}.",
            safe="nothing was done",
            next_step="choose another --metrics-port or --metrics-host",
        ) from error
    Thread(target=server.serve_forever, name="lentic-metrics", daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], answers: dict[str, Answer]) -> None:
        self.answers = answers
        self._free = BoundedSemaphore(_AT_ONCE)
        super().__init__(address, _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked went away; that is no news."""


class _Request(BaseHTTPRequestHandler):
    timeout = _TIMEOUT_S
    server: _Server

    def do_GET(self) -> None:
        answer = self.server.answers.get(self.path.partition("?")[0])
        status, text = answer() if answer else (404, "There are /metrics and /healthz.\n")
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", TEXT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "lentic"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: standard error is for what the runner does."""
