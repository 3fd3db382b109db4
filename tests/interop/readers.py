"""The independent engines that judge tables: Apache Hudi on Spark, and hudi-rs.

`ApacheHudi` is a process of its own (`hudi_server.py` in Hudi's environment) that is spoken to in
JSON lines, one command at a time; rows cross as Parquet files in a scratch folder that goes with
it. hudi-rs runs in this process. Either one's failure is an `EngineFailed`, never anything else.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hudi import HudiTableBuilder

from tests.interop.setup_hudi import HudiInstall, clean_environment, ensure_hudi

START_TIMEOUT_S = 180
COMMAND_TIMEOUT_S = 600
STOP_TIMEOUT_S = 30

_SERVER = Path(__file__).resolve().with_name("hudi_server.py")


class EngineFailed(Exception):
    """An independent engine refused a table or broke down; the message carries its own words."""


class ApacheHudi:
    """Apache Hudi 1.2.0 on Spark, running from `__enter__` to `__exit__`."""

    def __init__(self, install: HudiInstall | None = None) -> None:
        self._install = install or ensure_hudi()
        self._names = count()
        self._turn = threading.Lock()

    def __enter__(self) -> ApacheHudi:
        self._folder = tempfile.TemporaryDirectory(prefix="lentic-hudi-")
        self._scratch = Path(self._folder.name)
        self._log = self._scratch / "log"
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [self._install.python, _SERVER, self._install.jar, self._scratch],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=self._scratch,
                    env=self._environment(),
                    # Its own group: an interrupt at the keyboard does not hit it half-way through
                    # a command, and it can be ended together with its JVM.
                    start_new_session=True,
                )
            try:
                self._receive(START_TIMEOUT_S)
            except BaseException:
                self.end()
                raise
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._process.poll() is None:
                self._ask({"cmd": "stop"}, STOP_TIMEOUT_S)
                self._process.wait(STOP_TIMEOUT_S)
        except (EngineFailed, subprocess.TimeoutExpired):
            pass
        finally:
            self.end()
            self._folder.cleanup()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def ensure_running(self) -> None:
        """Start anew if the engine has ended, so that one breakdown costs one test."""
        if not self.is_running:
            self.__exit__(None, None, None)
            self.__enter__()

    def end(self) -> None:
        """Ends the process and its JVM, whatever state they are in."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # Closing flushes, which fails where the process ended before it had read everything.
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def rows(
        self, path: str, *, columns: Sequence[str] = (), where: str = "", **options: str
    ) -> pa.Table:
        """The rows Hudi's reader sees in the table, meta columns included, in no given order.

        `columns` and `where`, a condition, leave some out. `options` are read options by their full
        key: `**{"hoodie.datasource.query.type": "..."}`.
        """
        out = self._scratch / f"read-{next(self._names)}"
        request = {
            "cmd": "read",
            "path": _located(path),
            "out": str(out),
            "columns": list(columns),
            "where": where,
            "options": options,
        }
        try:
            told = self._ask(request, COMMAND_TIMEOUT_S)
            table = pq.read_table(out, partitioning=None)
        finally:
            shutil.rmtree(out, ignore_errors=True)
        assert table.num_rows == told["rows"], "the exchange file lost rows"
        return table

    def upsert(self, path: str, rows: pa.Table, options: Mapping[str, str]) -> None:
        """Upserts the rows with Hudi's own writer; `options` are all it is told, name too."""
        self.write(path, rows, options)

    def write(self, path: str, rows: pa.Table, options: Mapping[str, str]) -> None:
        """The same for any operation, which is one of the `options`."""
        with self._handed_over({"input": rows}) as files:
            request = {"cmd": "write", "path": _located(path), "options": dict(options), **files}
            self._ask(request, COMMAND_TIMEOUT_S)

    def sql(
        self,
        path: str,
        *statements: str,
        views: Mapping[str, pa.Table] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> list[list[str]]:
        """What the last statement returned, as text; the table at `path` is called `target`."""
        with self._handed_over(views or {}) as files:
            request = {
                "cmd": "sql",
                "path": _located(path),
                "statements": statements,
                "views": files,
                "settings": dict(settings or {}),
            }
            rows: list[list[str]] = self._ask(request, COMMAND_TIMEOUT_S)["rows"]
            return rows

    def service(
        self, path: str, op: str, service: str, at: str | None, options: Mapping[str, str]
    ) -> str | None:
        """Runs a table service through Hudi's write client; the time of the plan it is about."""
        request = {
            "cmd": "service",
            "path": _located(path),
            "op": op,
            "service": service,
            "at": at,
            "options": dict(options),
        }
        answer: str | None = self._ask(request, COMMAND_TIMEOUT_S)["at"]
        return answer

    @contextmanager
    def locked(self, options: Mapping[str, str]) -> Iterator[None]:
        """The table lock is in Hudi's hands, through the provider that the options name."""
        told = self._ask({"cmd": "lock", "options": dict(options)}, COMMAND_TIMEOUT_S)
        assert told["held"], "Hudi did not get the lock"
        try:
            yield
        finally:
            self._ask({"cmd": "unlock"}, COMMAND_TIMEOUT_S)

    def lock_file(self, content: bytes) -> dict[str, Any]:
        """Expired, valid until when and whose: a lock object as Hudi's own provider reads it."""
        return self._ask({"cmd": "lock_file", "text": content.decode()}, COMMAND_TIMEOUT_S)

    @contextmanager
    def _handed_over(self, tables: Mapping[str, pa.Table]) -> Iterator[dict[str, str]]:
        """The tables as Parquet files that exist while the context lasts."""
        files = {name: self._scratch / f"{name}-{next(self._names)}.parquet" for name in tables}
        try:
            for name, file in files.items():
                pq.write_table(tables[name], file)
            yield {name: str(file) for name, file in files.items()}
        finally:
            for file in files.values():
                file.unlink(missing_ok=True)

    def _environment(self) -> dict[str, str]:
        return clean_environment() | {
            "JAVA_HOME": str(self._install.java_home),
            "PYSPARK_PYTHON": str(self._install.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TZ": "UTC",
        }

    def _ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        with self._turn:
            if self._process.poll() is not None:
                raise EngineFailed(f"Apache Hudi has ended\n{self._last_words()}")
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
            except OSError as failure:
                raise EngineFailed(f"Apache Hudi has ended\n{self._last_words()}") from failure
            return self._receive(timeout_s)

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        """The next reply. The engine is ended where it keeps silent: its state is unknown then."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], timeout_s)[0]:
            self.end()
            raise EngineFailed(f"Apache Hudi said nothing for {timeout_s} s\n{self._last_words()}")
        line = self._process.stdout.readline()
        if not line:
            raise EngineFailed(f"Apache Hudi has ended\n{self._last_words()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            if reply["ended"]:
                self.end()
            raise EngineFailed(f"Apache Hudi: {reply['error']}")
        return reply

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


def hudi_rs_rows(path: str) -> pa.Table:
    """The rows hudi-rs sees in the table, meta columns included, in no given order."""
    try:
        table = HudiTableBuilder.from_base_uri(_located(path)).build()
        batches = table.read()
        schema = batches[0].schema if batches else table.get_schema_with_meta_fields()
        return pa.Table.from_batches(batches, schema=schema)
    except Exception as failure:
        raise EngineFailed(f"hudi-rs: {failure}") from failure
    except BaseException as failure:
        # A Rust panic arrives as a BaseException of a class that cannot be imported.
        if type(failure).__name__ != "PanicException":
            raise
        raise EngineFailed(f"hudi-rs panicked: {failure}") from failure


def _located(path: str) -> str:
    """The path as another process with another working folder understands it."""
    return path if "://" in path else str(Path(path).absolute())
