"""An engine in a process of its own, which writes what it is told to on stdin.

Each request is a line of JSON and gets one in reply, in order; end of input means stop:

    {"verb": "create"}                                make an empty table
    {"verb": "write", "source": ..., "within": [...]} load the rows of `base`, or upsert others
    {"verb": "compact"}, {"verb": "cluster"}          do that to the table as it is
    {"verb": "scan"}                                  -> {"found": ...}, rows in the range of W4
    {"verb": "settle"}                                let go of memory before a measurement
    {"verb": "summarize"}                             -> {"rows": ..., "quantity": ..., "ts": ...}

A reply has the `seconds` that the verb took, or an `error`. The first reply comes without a
request, once the engine has started. Replies go to the stdout that the process began with; stdout
itself then points at stderr, because libraries write to it as they like. Needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from bench.workloads import BASE


class Writer(Protocol):
    """What is measured. Sources are names of folders with Parquet files."""

    def create(self) -> None: ...

    def load(self, source: str) -> None: ...

    def upsert(self, source: str, within: Sequence[str]) -> None: ...

    def compact(self) -> None: ...

    def cluster(self) -> None: ...

    def scan(self) -> int: ...

    def settle(self) -> None: ...

    def summarize(self) -> tuple[int, int, int]: ...

    def stop(self) -> None: ...


def serve(start: Callable[[], Writer]) -> None:
    """Start the engine and serve requests until stdin ends."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    writer = start()
    replies.write(json.dumps({"pid": os.getpid()}) + "\n")
    for line in sys.stdin:
        try:
            reply = _answer(writer, json.loads(line))
        except Exception as error:
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
    writer.stop()


def _answer(writer: Writer, request: dict[str, Any]) -> dict[str, Any]:
    begun = time.perf_counter()
    reply: dict[str, Any] = {}
    match request:
        case {"verb": "create"}:
            writer.create()
        case {"verb": "write", "source": str(source), "within": list(within)}:
            if source == BASE:
                writer.load(source)
            else:
                writer.upsert(source, within)
        case {"verb": "compact"}:
            writer.compact()
        case {"verb": "cluster"}:
            writer.cluster()
        case {"verb": "scan"}:
            reply = {"found": writer.scan()}
        case {"verb": "settle"}:
            writer.settle()
        case {"verb": "summarize"}:
            reply = dict(zip(("rows", "quantity", "ts"), writer.summarize(), strict=True))
        case _:
            raise ValueError(f"no such request: {request}")
    return reply | {"seconds": time.perf_counter() - begun}
