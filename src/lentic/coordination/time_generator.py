"""Instant times that strictly rise across processes and restarts (R9).

t = max(now, last + 1 ms), where `last` is the greatest time anyone issued for this table: kept with
the lock, and for safety also the greatest on the timeline. Because `last` is shared under the lock
no sleeping against clock skew is needed; a clock that lies far behind `last` is refused instead of
hidden.
"""

from __future__ import annotations

from lentic.coordination.lock import Held
from lentic.errors import Unavailable
from lentic.format.times import Zone, format_time, next_time, parse_epoch_ms
from lentic.world import Clock


def issue_time(held: Held, clock: Clock, zone: Zone, *, seen: str, skew_ms_max: int) -> str:
    """The next time of the table; `seen` is the greatest on the timeline loaded under this lock."""
    held.ensure_held()
    now_ms = clock.now_ms()
    last = max(held.last_time, seen)
    time = format_time(now_ms, zone)
    if last and time <= last:
        behind_ms = parse_epoch_ms(last, zone) - now_ms
        if behind_ms > skew_ms_max:
            raise Unavailable(
                f"This machine's clock is {behind_ms / 1000:.1f} s behind the last time "
                f"issued for the table ({last}).",
                safe="nothing was written",
                next_step="set the clock right, or raise "
                "hoodie.time.generator.max_expected_clock_skew_ms if the table's time is wrong",
            )
        time = next_time(last)
    assert time > last, (time, last)
    held.save_last_time(time)
    return time
