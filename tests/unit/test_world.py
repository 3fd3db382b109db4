"""The real world: clocks that run, ids that differ, and a process that says who it is."""

from __future__ import annotations

import os
import re

from lentic.world import Process, real_world


def test_wall_time_is_in_milliseconds_of_this_century() -> None:
    clock = real_world().clock
    first, second = clock.now_ms(), clock.now_ms()
    assert 1_700_000_000_000 < first < 4_200_000_000_000
    assert isinstance(second, int)


def test_monotonic_time_never_runs_backwards_and_sleeping_advances_it() -> None:
    clock = real_world().clock
    before = clock.monotonic()
    clock.sleep(0.002)
    assert clock.monotonic() - before >= 0.002


def test_uuids_have_the_36_character_form_and_never_repeat() -> None:
    entropy = real_world().entropy
    made = {entropy.uuid() for _ in range(1000)}
    assert len(made) == 1000
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", one) for one in made)


def test_integers_lie_below_their_bound_and_reach_every_value() -> None:
    entropy = real_world().entropy
    assert {entropy.integer(3) for _ in range(200)} == {0, 1, 2}


def test_the_process_names_host_and_pid() -> None:
    process = real_world().process
    assert process.pid == os.getpid()
    assert process.host
    assert str(Process("host-7", 4121)) == "host-7:4121"
