"""The rows of the write benchmarks: orders with 18 columns, and batches of changes to them.

Everything follows from one seed, so that runs on any day and machine, and every engine in a run,
write the same rows. A folder of Parquet files holds them:

    base            all rows, in 8 files, each with rows of every partition
    u1 u2 u3        changes to a twentieth of the rows: 80% updates of any of them, 20% inserts
    skew            as many changes, all in 2 partitions
    s00 ... s19     1,000 changes in one partition
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.workloads import BASE, SKEW, SKEWED, SMALL, SMALL_ROWS, SMALLS, UPSERTS, partition_name

SEED = 7
_FILES = 8
_BATCH_SEEDS = 1000
_UPDATED = 0.8
_TWO_FILES_FROM = 100_000
_READY = "ready"

_STATUSES = pa.array(["NEW", "PAID", "PACKED", "SHIPPED", "DONE", "RETURNED"])
_CHANNELS = pa.array(["web", "app", "store", "partner"])
_VOCABULARY = (
    "alpha bravo carbon delta ember falcon garnet harbor indigo jasper kestrel lumen marble "
    "nickel onyx pepper quartz raven saffron timber umber velvet willow xenon yonder zephyr"
)
_WORDS = pa.array(_VOCABULARY.split())
_NOTE_WORDS = 10
_NOTE_LENGTH = 60

SCHEMA = pa.schema(
    [
        ("order_key", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("customer_id", pa.int32()),
        ("product_id", pa.int32()),
        ("quantity", pa.int32()),
        ("price", pa.float64()),
        ("discount", pa.float64()),
        ("amount", pa.decimal128(12, 2)),
        ("tax", pa.decimal128(10, 2)),
        ("order_ts", pa.timestamp("us", tz="UTC")),
        ("ship_date", pa.date32()),
        ("status", pa.string()),
        ("channel", pa.string()),
        ("country", pa.string()),
        ("city", pa.string()),
        ("email", pa.string()),
        ("note", pa.string()),
    ]
)

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stored:
    """Key and partition of every row of `base`, in order."""

    keys: pa.Array
    partitions: Numbers
    count: int


def ensure_orders(folder: Path, rows: int, partitions: int) -> None:
    """Make the folder of Parquet files, unless it is there already."""
    ready = folder / _READY
    wanted = f"{rows} rows, {partitions} partitions, seed {SEED}"
    if ready.exists() and ready.read_text() == wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    stored = _make_base(folder, rows, partitions)
    batch = rows // 20
    for number, name in enumerate(UPSERTS, start=1):
        _make_batch(folder / name, stored, batch, ts=1 + number, seed=number)
    _make_batch(folder / SKEW, stored, batch, ts=10, seed=10, within=SKEWED)
    for number, name in enumerate(SMALLS):
        size = min(SMALL_ROWS, batch)
        _make_batch(folder / name, stored, size, ts=30 + number, seed=30 + number, within=SMALL)
    ready.write_text(wanted)


def summarize(folder: Path, names: Iterable[str]) -> tuple[int, int, int]:
    """What a table must hold after these were written in order: its rows, and the sums of
    `quantity` and `ts` over them."""
    columns = ["order_key", "quantity", "ts"]
    written = [pq.read_table(folder / name, columns=columns) for name in names]
    newest = (
        pa.concat_tables(written)
        .group_by("order_key", use_threads=False)
        .aggregate([("quantity", "last"), ("ts", "last")])
    )
    sums = (pc.sum(newest.column(name)).as_py() for name in ("quantity_last", "ts_last"))
    return (newest.num_rows, *sums)


def open_rows(folder: Path) -> pa.RecordBatchReader:
    """The rows of one folder as a stream."""
    return ds.dataset(folder, format="parquet").scanner().to_reader()


def make_keys(rng: np.random.Generator, count: int) -> pa.Array:
    """Random keys that look like UUIDs."""
    digits = np.frombuffer(rng.bytes(16 * count).hex().encode(), np.uint8).reshape(count, 32)
    text = np.insert(digits, (8, 12, 16, 20), ord("-"), axis=1)
    ends = np.arange(count + 1, dtype=np.int32) * text.shape[1]
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(text.tobytes()))


def make_orders(
    rng: np.random.Generator, keys: pa.Array, partitions: pa.Array, ts: int
) -> pa.Table:
    """One order per key; the columns are drawn in the order of the schema."""
    size = len(keys)
    customers = pa.array(rng.integers(0, 200_000, size, dtype=np.int32))
    products = rng.integers(0, 20_000, size, dtype=np.int32)
    quantities = rng.integers(1, 50, size, dtype=np.int32)
    prices = np.round(rng.random(size) * 1000, 2)
    discounts = rng.random(size)
    amounts = _decimals(rng.integers(0, 10_000_000, size), SCHEMA.field("amount").type)
    taxes = _decimals(rng.integers(0, 1_000_000, size), SCHEMA.field("tax").type)
    ordered = rng.integers(1_700_000_000_000_000, 1_731_536_000_000_000, size)
    shipped = rng.integers(19_700, 20_100, size, dtype=np.int32)
    columns: list[Any] = [
        keys,
        partitions,
        np.full(size, ts, np.int64),
        customers,
        products,
        quantities,
        prices,
        discounts,
        amounts,
        taxes,
        pa.array(ordered, SCHEMA.field("order_ts").type),
        pa.array(shipped).cast(pa.date32()),
        _STATUSES.take(pa.array(rng.integers(0, 6, size))),
        _CHANNELS.take(pa.array(rng.integers(0, 4, size))),
        _numbered("C", rng.integers(0, 60, size)),
        _numbered("city-", rng.integers(0, 5000, size)),
        _numbered("user", customers, "@example.com"),
        _notes(rng, size),
    ]
    return pa.table(columns, schema=SCHEMA)


def _make_base(folder: Path, rows: int, partitions: int) -> Stored:
    """File by file, so that memory stays small."""
    names = _partition_names(partitions)
    keys, places = [], []
    for number in range(_FILES):
        rng = np.random.default_rng([SEED, number])
        keys.append(make_keys(rng, rows // _FILES))
        places.append(rng.integers(0, partitions, rows // _FILES))
        orders = make_orders(rng, keys[-1], names.take(pa.array(places[-1])), ts=1)
        _write(orders, folder / BASE, number)
    return Stored(pa.concat_arrays(keys), np.concatenate(places), partitions)


def _make_batch(
    folder: Path,
    stored: Stored,
    size: int,
    *,
    ts: int,
    seed: int,
    within: Sequence[int] | None = None,
) -> None:
    """Updates of stored rows, and inserts, in any order; `within` some partitions or anywhere."""
    rng = np.random.default_rng([SEED, _BATCH_SEEDS + seed])
    pool = np.arange(len(stored.keys))
    if within is not None:
        pool = np.flatnonzero(np.isin(stored.partitions, within))
    updates = min(int(size * _UPDATED), len(pool))
    inserts = size - updates
    chosen = rng.choice(pool, updates, replace=False)
    if within is None:
        fresh = rng.integers(0, stored.count, inserts)
    else:
        fresh = rng.choice(np.array(within), inserts)
    keys = pa.concat_arrays([stored.keys.take(pa.array(chosen)), make_keys(rng, inserts)])
    places = np.concatenate([stored.partitions[chosen], fresh])
    order = rng.permutation(size)
    names = _partition_names(stored.count).take(pa.array(places[order]))
    orders = make_orders(rng, keys.take(pa.array(order)), names, ts)
    half = -(-size // 2) if size >= _TWO_FILES_FROM else size
    for number, start in enumerate(range(0, size, half)):
        _write(orders.slice(start, half), folder, number)


def _partition_names(count: int) -> pa.Array:
    return pa.array([partition_name(number) for number in range(count)])


def _write(orders: pa.Table, folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(orders, folder / f"p{number:02d}.parquet", compression="snappy")


def _decimals(hundredths: Numbers, kind: pa.DataType) -> pa.Array:
    """Numbers of hundredths as decimals with two digits, which is how Arrow lays them out."""
    words = np.stack([hundredths, np.zeros_like(hundredths)], axis=1)
    return pa.Array.from_buffers(kind, len(hundredths), [None, pa.py_buffer(words)])


def _numbered(before: str, numbers: Any, after: str = "") -> pa.Array:
    texts = pa.array(numbers).cast(pa.string())
    return pc.binary_join_element_wise(before, texts, after, "")


def _notes(rng: np.random.Generator, size: int) -> pa.Array:
    chosen = rng.integers(0, len(_WORDS), (size, _NOTE_WORDS))
    words = [_WORDS.take(pa.array(column)) for column in chosen.T]
    return pc.utf8_slice_codeunits(pc.binary_join_element_wise(*words, " "), 0, _NOTE_LENGTH)
