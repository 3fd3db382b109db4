"""What is written in the write benchmarks, step by step, and how fast it should be.

    W1  bulk load of all rows
    W2  upsert of a twentieth of them, anywhere, three times
    W3  upsert of as many rows, all in 2 partitions
    W4  a scan with a range on two columns, three times, with the logs of W2 (merge-on-read only)
    W5  compaction of what the upserts left (merge-on-read only)
    W4a W4b  the same scan before and after the clustering
    W6  clustering by Z-order on two columns
    W7  twenty upserts of 1,000 rows into one partition

Peers run this module in environments of their own: it needs nothing but Python.
"""

from __future__ import annotations

from dataclasses import dataclass

BASE = "base"
UPSERTS = ("u1", "u2", "u3")
SKEW = "skew"
SMALLS = tuple(f"s{number:02d}" for number in range(20))
SMALL_ROWS = 1000
SKEWED = (3, 4)
SMALL = (5,)
PARTITIONS_MIN = 6

KEY, PARTITION, ORDERING = "order_key", "part", "ts"
BUCKETS = 2
TYPES = ("cow", "mor")
WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "W4a", "W6", "W4b", "W7")
SCANS = ("W4", "W4a", "W4b")
"""In this order on one table; the first on top of logs, the last on clustered files."""
CLUSTERED = ("customer_id", "product_id")
COMPACT, CLUSTER, SCAN = "compact", "cluster", "scan"
"""Verbs of steps that write no rows of their own."""
FULL_ROWS = 4_000_000
SPARK_SETTINGS = {
    "spark.driver.memory": "6g",
    "spark.driver.host": "127.0.0.1",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Of every engine on Spark; the master is local[2]."""


@dataclass(frozen=True, slots=True)
class Step:
    """One commit. `within` are its partitions, if the one who writes can know them."""

    workload: str
    source: str
    within: tuple[str, ...] = ()
    verb: str = "write"
    """Steps with another verb are done to the table as it is; `source` names the step."""
    types: tuple[str, ...] = TYPES


def partition_name(number: int) -> str:
    return f"2026-01-{number + 1:02d}"


def _named(numbers: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(partition_name(number) for number in numbers)


def _scans(workload: str, types: tuple[str, ...] = TYPES) -> tuple[Step, ...]:
    """The same scan again and again: the first one pays for what engines keep in memory."""
    return tuple(Step(workload, f"range {n}", verb=SCAN, types=types) for n in (1, 2, 3))


STEPS = (
    Step("W1", BASE),
    *(Step("W2", name) for name in UPSERTS),
    *_scans("W4", ("mor",)),
    Step("W5", COMPACT, verb=COMPACT, types=("mor",)),
    *_scans("W4a"),
    Step("W6", "z-order", verb=CLUSTER),
    *_scans("W4b"),
    Step("W3", SKEW, _named(SKEWED)),
    *(Step("W7", name, _named(SMALL)) for name in SMALLS),
)


def steps_for(only: tuple[str, ...]) -> tuple[Step, ...]:
    """The steps of these workloads; the load comes first in any case."""
    return tuple(step for step in STEPS if step.source == BASE or step.workload in only)


TARGETS = {
    ("spark", "cow"): {
        "W1": 1.0,
        "W2": 4.0,
        "W3": 2.5,
        "W4a": 1.0,
        "W4b": 1.0,
        "W6": 1.3,
        "W7": 3.0,
    },
    ("spark", "mor"): {
        "W1": 1.0,
        "W2": 6.0,
        "W3": 3.0,
        "W4": 0.8,
        "W4a": 1.0,
        "W4b": 1.0,
        "W5": 3.0,
        "W6": 1.3,
        "W7": 3.0,
    },
    ("local", "cow"): {
        "W1": 1.0,
        "W2": 1.5,
        "W3": 1.0,
        "W4a": 1.0,
        "W4b": 1.0,
        "W6": 1.0,
        "W7": 1.0,
    },
    ("local", "mor"): {
        "W1": 1.0,
        "W2": 5.0,
        "W3": 2.0,
        "W4": 0.8,
        "W4a": 1.0,
        "W4b": 1.0,
        "W5": 1.0,
        "W6": 1.0,
        "W7": 5.0,
    },
}
"""How many times the wall time of ours the best peer should take, at `FULL_ROWS`."""

MEMORY_TARGETS = {"hudi": 0.5, "deltalake": 1.0}
"""At most this share of the peer's peak memory."""

RANGE = (("customer_id", 1_000, 2_000), ("product_id", 500, 1_000))
"""Column, from (inclusive), to (exclusive): what the scan of W4 asks for."""


def range_sql() -> str:
    """The range as a condition that every engine understands."""
    return " AND ".join(f"{c} >= {low} AND {c} < {high}" for c, low, high in RANGE)
