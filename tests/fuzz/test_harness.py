"""The harness finds what it is there to find."""

from __future__ import annotations

import pytest

from tests.fuzz import base_files, broken, log_files, runner
from tests.fuzz.blocks import map_log
from tests.fuzz.case import Outcome
from tests.fuzz.tables import one_path
from tests.fuzz.thrift import Span, map_parquet


def test_every_way_to_go_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SECONDS_MAX", 2)
    verdicts = runner.run_all("broken").verdicts
    assert tuple(verdict.outcome for verdict in verdicts) == broken.EXPECTED
    failures = [verdict.outcome for verdict in verdicts if runner.is_failure(verdict)]
    assert set(failures) == set(broken.EXPECTED) - {Outcome.EXACT, Outcome.REFUSED}


def test_every_byte_of_a_file_is_mapped_once() -> None:
    for name, target in {**base_files.targets(), **log_files.targets()}.items():
        for path, data in target.files.items():
            if path.endswith(".parquet") and ".hoodie/" not in path:
                _ensure_complete(map_parquet(data), data, f"{name} {path}")
            elif ".log." in path:
                _ensure_complete(map_log(data), data, f"{name} {path}")


def test_every_page_that_we_write_has_a_checksum() -> None:
    base = base_files.targets()["wide"].files
    logs = log_files.targets()["mixed"].files
    for spans in (
        map_parquet(base[one_path(base, ".parquet")]),
        map_log(logs[log_files.log_path(logs)]),
    ):
        names = [span.name for span in spans]
        assert names.count("page.crc") == names.count("page content") > 0


def _ensure_complete(spans: list[Span], data: bytes, where: str) -> None:
    ends = [0, *(span.end for span in spans)]
    assert [span.start for span in spans] == ends[:-1], where
    assert ends[-1] == len(data), where
