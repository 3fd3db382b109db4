"""Ways of sharing a table that cannot be safe are refused before anything happens."""

from __future__ import annotations

import pytest

from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
from lentic.config.sharing import ConcurrencyMode, FailedWrites, SharingOptions
from lentic.errors import ConfigError
from lentic.txn.modes import ensure_mode_fits
from tests.rfc.claims import says
from tests.unit.builders import new_table

MODE = "hoodie.write.concurrency.mode"
POLICY = "hoodie.clean.failed.writes.policy"
NBCC = ConcurrencyMode.NON_BLOCKING


@says("rfc66.pre.lazy")
def test_with_several_writers_the_dead_are_given_up_lazily() -> None:
    assert SharingOptions.parse(resolve({}, REGISTRY)).failed_writes is FailedWrites.EAGER
    for mode in ("optimistic_concurrency_control", NBCC.value):
        options = SharingOptions.parse(resolve({MODE: mode}, REGISTRY))
        assert options.failed_writes is FailedWrites.LAZY
    lazy = SharingOptions.parse(resolve({POLICY: "lazy"}, REGISTRY))
    assert lazy.failed_writes is FailedWrites.LAZY


@says("rfc66.pre.lazy")
@pytest.mark.parametrize("mode", [mode for mode in ConcurrencyMode if mode.is_shared])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (POLICY, "EAGER"),
        ("hoodie.cleaner.policy.failed.writes", "EAGER"),
        ("hoodie.write.lock.provider", "in_process"),
        (
            "hoodie.write.lock.provider",
            "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
        ),
    ],
)
def test_several_writers_contradict_what_presumes_one(
    mode: ConcurrencyMode, key: str, value: str
) -> None:
    with pytest.raises(ConfigError, match="contradicts") as caught:
        SharingOptions.parse(resolve({MODE: mode.value, key: value}, REGISTRY))
    assert MODE in caught.value.what
    assert mode.value in caught.value.what


def test_only_who_says_so_is_alone_by_word() -> None:
    assert not SharingOptions.parse(resolve({}, REGISTRY)).is_alone_by_word
    assert SharingOptions.parse(resolve({MODE: "single_writer"}, REGISTRY)).is_alone_by_word


@says("rfc66.pre.mor", "rfc66.pre.buckets")
@pytest.mark.parametrize(
    ("shape", "named"),
    [
        ({"table_type": "COPY_ON_WRITE", "buckets": 2, "ordering": "v"}, "hoodie.table.type"),
        ({"buckets": None, "ordering": "v"}, "hoodie.bucket.index.num.buckets"),
        ({"buckets": 2, "ordering": ""}, "hoodie.table.ordering.fields"),
        (
            {
                "buckets": 2,
                "ordering": "v",
                "options": {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
            },
            "hoodie.record.merge.mode",
        ),
    ],
)
def test_writers_that_never_wait_need_logs_buckets_and_an_order(
    shape: dict[str, object], named: str
) -> None:
    config = new_table(**shape).config  # type: ignore[arg-type]
    for mode in ConcurrencyMode:
        if mode is not NBCC:
            ensure_mode_fits(config, mode)
    with pytest.raises(ConfigError, match="contradicts") as caught:
        ensure_mode_fits(config, NBCC)
    assert named in caught.value.what and MODE in caught.value.what


def test_writers_that_never_wait_fit_a_table_with_all_of_it() -> None:
    ensure_mode_fits(new_table(buckets=2, ordering="v").config, NBCC)
