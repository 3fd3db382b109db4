"""Apache Hudi's own cleans: their plans and records read, come back equal, and can be executed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lentic
from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
from lentic.config.services import ServiceOptions
from lentic.format.avro import decode_container
from lentic.format.clean import (
    decode_clean_metadata,
    decode_clean_plan,
    encode_clean_metadata,
    encode_clean_plan,
)
from lentic.services.clean_plan import find_retained
from lentic.services.protected import load_protected
from lentic.storage.local import LocalStorage
from lentic.timeline.reader import load_timeline

TABLES = ["cow_clean_archive", "mor_clean_archive", "cow_savepoint_held"]
ROOT = "/data/lakehouse/tbl"


@pytest.mark.parametrize("name", TABLES)
def test_plans_and_records_come_back_as_hudi_wrote_them(name: str, golden: Path) -> None:
    timeline = golden / name / ".hoodie" / "timeline"
    plans, records = sorted(timeline.glob("*.clean.requested")), sorted(timeline.glob("*.clean"))
    assert plans and records
    for file, done in zip(plans, records, strict=True):
        plan = decode_clean_plan(file.read_bytes(), f"{ROOT}/{name}", file.name)
        ours = encode_clean_plan(plan, f"{ROOT}/{name}")
        theirs = file.read_bytes().replace(b"file:/data", b"/data")
        again = decode_clean_plan(ours, f"{ROOT}/{name}", "ours")
        assert again == plan
        if theirs == file.read_bytes():
            assert decode_container(ours, "ours") == decode_container(theirs, "theirs")
        record = decode_clean_metadata(done.read_bytes(), done.name)
        encoded = encode_clean_metadata(record)
        assert decode_container(encoded, "ours") == decode_container(done.read_bytes(), "theirs")
        assert sorted(record.deleted) == sorted(plan.files)
        assert plan.retained and record.retained == plan.retained[0]


@pytest.mark.parametrize("name", TABLES)
def test_we_retain_what_hudi_retained(name: str, golden: Path) -> None:
    """With the number of commits that Hudi was told, for its last clean of the table."""
    storage = LocalStorage(str(golden / name))
    timeline = load_timeline(storage)
    file = sorted((golden / name / ".hoodie" / "timeline").glob("*.clean"))[-1]
    kept = decode_clean_metadata(file.read_bytes(), file.name).retained
    writes = timeline.writes()
    told = [i.requested_at for i in writes]
    assert kept in told
    settings = resolve({"hoodie.clean.commits.retained": len(told) - told.index(kept)}, REGISTRY)
    options = ServiceOptions.parse(settings).clean
    config = lentic.open(str(golden / name)).config
    found = find_retained(timeline, options, told[-1], config.zone)
    assert found is not None and found.requested_at == kept


def test_what_a_savepoint_of_hudi_names_is_protected(golden: Path) -> None:
    storage = LocalStorage(str(golden / "cow_savepoint_held"))
    found = load_protected(storage, load_timeline(storage))
    assert len(found) == 3 and all(storage.info(path) for path in found)


@pytest.mark.parametrize("name", ["cow_cluster", "mor_hive_pending_compact", "mor_logcompact"])
def test_the_plans_of_hudi_can_all_be_read(name: str, golden: Path, tmp_path: Path) -> None:
    """As pending ones: each without its completed file names files that are, or were, there."""
    table = tmp_path / name
    shutil.copytree(golden / name, table)
    storage = LocalStorage(str(table))
    timeline = table / ".hoodie" / "timeline"
    planned = [p.name.partition(".")[0] for p in timeline.glob("*.c*.requested")]
    planned += [p.name.partition(".")[0] for p in timeline.glob("*.logcompaction.requested")]
    for file in list(timeline.glob("*_*.*")):
        if file.name.partition("_")[0] in planned:
            file.unlink()
    named = load_protected(storage, load_timeline(storage))
    assert named
    assert all(storage.info(path) for path in named), "nothing of these tables was cleaned"
