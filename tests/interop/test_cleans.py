"""hudi-rs, which lists files, reads a table of ours after each clean as we read it before."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lentic.engine import LocalEngine
from lentic.services.clean import run_clean
from lentic.services.verify import verify_table
from lentic.storage.local import LocalStorage
from lentic.table import Table
from tests.interop.readers import hudi_rs_rows
from tests.unit.builders import new_table, rows
from tests.unit.verbs import EVERY, KINDS, MOR

ONE = {"hoodie.clean.commits.retained": 1}


@EVERY
@pytest.mark.parametrize("policy", ["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"])
def test_hudi_rs_reads_the_same_rows_after_every_clean(
    kind: str, policy: str, tmp_path: Path
) -> None:
    table_type, buckets = KINDS[kind]
    keep = {**ONE, "hoodie.clean.policy": policy, "hoodie.clean.fileversions.retained": 1}
    storage = LocalStorage(str(tmp_path))
    opened = new_table(storage=storage, table_type=table_type, buckets=buckets, options=keep)
    table = Table(opened, LocalEngine(threads=1))
    cleans = 0
    for n in range(4):
        table.upsert(rows(("a", n, "x"), ("b", n, "y"), (f"n{n}", n, "x")))
        if n == 2:
            table.delete_partitions(["y"])
        if table_type == MOR and n % 2:
            table.compact()
        expected = Counter((r["id"], r["v"], r["day"]) for r in table.read().to_pylist())
        cleans += len(run_clean(opened).cleans)
        found = hudi_rs_rows(str(tmp_path)).to_pylist()
        assert Counter((r["id"], r["v"], r["day"]) for r in found) == expected
        assert verify_table(storage) == []
    assert cleans
