"""What is remembered, and for how long."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lentic.timeline.bounded_cache import BoundedCache


class _Made:
    """Loads values, and tells how often."""

    def __init__(self, weight_max: int) -> None:
        self.cache = BoundedCache(weight_max)
        self.loads: list[str] = []

    def ask(self, key: str, weight: int = 1) -> str:
        def load() -> str:
            self.loads.append(key)
            return key.upper()

        return self.cache.get(key, load, lambda _: weight)


def test_what_was_made_once_is_not_made_again() -> None:
    made = _Made(3)
    assert [made.ask(key) for key in "abcabc"] == list("ABCABC")
    assert made.loads == list("abc")


def test_what_was_not_asked_for_longest_goes_first() -> None:
    made = _Made(3)
    for key in "abcad":  # b goes for d
        made.ask(key)
    made.loads.clear()
    for key in "acdb":
        made.ask(key)
    assert made.loads == ["b"]


def test_weights_count_and_not_numbers() -> None:
    made = _Made(10)
    for key in "abc":
        made.ask(key, weight=3)
    made.ask("d", weight=7)  # a and b go
    made.loads.clear()
    made.ask("c", weight=3)
    made.ask("d", weight=7)
    assert made.loads == []


def test_what_is_too_heavy_drives_nobody_out() -> None:
    made = _Made(3)
    made.ask("a")
    assert made.ask("giant", weight=4) == "GIANT"
    made.loads.clear()
    made.ask("a")
    made.ask("giant", weight=4)
    assert made.loads == ["giant"]


def test_what_fails_is_not_remembered() -> None:
    cache = BoundedCache(3)

    def fail() -> str:
        raise OSError

    with pytest.raises(OSError):
        cache.get("a", fail, len)
    assert cache.get("a", lambda: "A", len) == "A"


def test_threads_that_ask_at_once_get_the_value_and_leave_the_weight_right() -> None:
    made = _Made(2)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(made.ask, "ab" * 400)) == list("AB" * 400)
    made.loads.clear()
    made.ask("a")
    made.ask("b")
    assert made.loads == [], "both fit, however often they were made"
