"""Other engines on the same work: how each is brought here and started.

    iceberg     Apache Iceberg 1.12.0 on PySpark 4.1.0    cow and mor (positional deletes)
    delta       Delta Lake 4.2.0 on PySpark 4.1.0         cow and mor (deletion vectors)
    hudi        Apache Hudi 1.2.0 on PySpark 3.5.9        cow and mor, simple bucket index
    deltalake   delta-rs 1.6.6, without Spark             cow

Each runs in an environment of its own, in the cache and never in the source tree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.install import (
    Jar,
    PeerUnavailable,
    ensure_environment,
    ensure_jars,
    ensure_java_for_peers,
    peer_environment,
)
from bench.workloads import TYPES
from tests.interop.setup_hudi import HudiUnavailable, ensure_hudi

_ICEBERG = (
    Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.1_2.13",
        "1.12.0",
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    ),
)
_DELTA = (
    Jar(
        "io.delta",
        "delta-spark_4.1_2.13",
        "4.2.0",
        "8480050a55c7e50427f3bec3af9243f98fc7cbfa453a2ef55e6ea8d0b7b121ff",
    ),
    Jar(
        "io.delta",
        "delta-storage",
        "4.2.0",
        "2d84df76551f2b3cd27b120abec67ccbba324cea6ec45eb659edcc54234f99f3",
    ),
)


@dataclass(frozen=True, slots=True)
class Task:
    """Where an engine reads and writes, and how it compresses."""

    codec: str
    source: Path
    out: Path


Command = Callable[[Task], list[str]]


@dataclass(frozen=True, slots=True)
class Contestant:
    """An engine with one type of table: what it is called, and how its process is started."""

    name: str
    on: str
    table_type: str
    command: Command
    env: Mapping[str, str]

    @property
    def title(self) -> str:
        return f"{self.name} {self.on} {self.table_type}"


def find_lentic(on: str, table_type: str, env: Mapping[str, str]) -> Contestant:
    """Ourselves, on Spark or without."""

    def command(task: Task) -> list[str]:
        places = [task.codec, str(task.source), str(task.out)]
        return [sys.executable, "-m", "bench.lentic_writer", on, table_type, *places]

    return Contestant("lentic", on, table_type, command, env)


def find_peer(name: str) -> list[Contestant]:
    """The peer with each type of table that it has; `PeerUnavailable` if it cannot be had."""
    return PEERS[name]()


def _find_iceberg() -> list[Contestant]:
    return _find_on_spark("iceberg", _ICEBERG)


def _find_delta() -> list[Contestant]:
    return _find_on_spark("delta", _DELTA)


def _find_on_spark(name: str, jars: tuple[Jar, ...]) -> list[Contestant]:
    ensure_java_for_peers()
    python = ensure_environment("spark")
    return _on_spark(name, python, ensure_jars(jars, python), None)


def _find_hudi() -> list[Contestant]:
    try:
        found = ensure_hudi()
    except HudiUnavailable as missing:
        raise PeerUnavailable(str(missing)) from missing
    return _on_spark("hudi", found.python, [found.jar], found.java_home)


def _on_spark(
    name: str, python: Path, jars: list[Path], java_home: Path | None
) -> list[Contestant]:
    env = peer_environment(java_home) | {"PYSPARK_PYTHON": str(python)}
    listed = ",".join(map(str, jars))

    def started(table_type: str) -> Command:
        fixed = [str(python), "-m", "bench.spark_writer", name, table_type]
        return lambda task: [*fixed, task.codec, str(task.source), str(task.out), listed]

    return [Contestant(name, "spark", kind, started(kind), env) for kind in TYPES]


def _find_deltalake() -> list[Contestant]:
    python = ensure_environment("deltalake")

    def command(task: Task) -> list[str]:
        places = [task.codec, str(task.source), str(task.out)]
        return [str(python), "-m", "bench.deltalake_writer", *places]

    return [Contestant("deltalake", "local", "cow", command, peer_environment())]


PEERS: Mapping[str, Callable[[], list[Contestant]]] = {
    "iceberg": _find_iceberg,
    "delta": _find_delta,
    "hudi": _find_hudi,
    "deltalake": _find_deltalake,
}
