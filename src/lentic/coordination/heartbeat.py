"""Signs of life of whoever works on an instant (R14).

A heartbeat is a file whose content changes: owner, epoch and a number that rises. Whoever waits for
its end looks whether it changes, on their own clock, so that no two clocks are ever compared: it
has expired when it was seen unchanged for the whole time to live. A file that is missing counts as
one that never changes. Apache Hudi looks at the file's modification time, which beating renews.

The owner stops earlier than others give it up: half the time to live without a successful beat, and
`ensure_alive` raises. Beats run beside the work, several at once if one hangs, and count from the
moment they were begun. Nothing rests on this alone: what an owner that was given up publishes is
refused by the timeline itself (R1).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lentic.errors import HeartbeatLost, MissingFile, StorageError
from lentic.format import layout
from lentic.format.times import RequestedAt
from lentic.storage.base import Storage
from lentic.world import Clock, World

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pulse:
    """How often hearts beat, and when they count as still."""

    interval_ms: int
    misses_max: int

    @property
    def ttl_ms(self) -> int:
        return self.interval_ms * self.misses_max

    @property
    def beat_s(self) -> float:
        # The owner gives up at half the time to live, and should have missed more than one by then.
        return min(self.interval_ms, self.ttl_ms / 6) / 1000


class Heart:
    """A heartbeat under way. Get one from `beating`."""

    def __init__(
        self, storage: Storage, world: World, at: RequestedAt, pulse: Pulse, epoch: int
    ) -> None:
        self._storage = storage
        self._world = world
        self._at = at
        self._pulse = pulse
        self._epoch = epoch
        self._owner = world.entropy.uuid()
        self._seq = 0
        self._alive_at = world.clock.monotonic()
        self._is_lost = False
        self._has_ended = False
        self._on_lost: list[Callable[[], object]] = []

    @property
    def is_lost(self) -> bool:
        """Whether others may have given this owner up."""
        silent_s = self._world.clock.monotonic() - self._alive_at
        return self._is_lost or silent_s * 1000 > self._pulse.ttl_ms / 2

    def ensure_alive(self) -> None:
        """Raise `HeartbeatLost` if others may have given this owner up."""
        if self.is_lost:
            raise HeartbeatLost(
                f"The heartbeat of {self._at} could not be renewed for more than "
                f"{self._pulse.ttl_ms / 2000:g} s, so others may have given this write up.",
                where=self._storage.root,
                safe="nothing of this write is visible; start over",
                next_step="look whether the storage answers, and whether this process was paused",
            )

    def is_shown(self) -> bool:
        """Whether the sign of life that others see is this owner's, as far as the storage says."""
        try:
            shown = json.loads(load_heartbeat(self._storage, self._at) or b"{}")
        except (StorageError, ValueError):
            return False
        return isinstance(shown, dict) and shown.get("owner") == self._owner

    def when_lost(self, stop: Callable[[], object]) -> None:
        """Call `stop`, from another thread, at once when this owner must give up."""
        self._on_lost.append(stop)

    def beat(self) -> None:
        """Renew the sign of life; what fails is tried again at the next beat."""
        begun = self._world.clock.monotonic()
        if not self._is_lost and self.is_lost:
            self._lose()
        if self._is_lost or self._has_ended:
            return  # an owner that woke up too late must not look alive again
        self._seq += 1
        try:
            self._storage.replace(layout.heartbeat(self._at), self._content(self._seq))
            self._alive_at = max(self._alive_at, begun)
            if self._has_ended:
                self.end()  # it ended while this beat was on its way
        except StorageError as error:
            _log.warning("heartbeat of %s failed: %s", self._at, error.what)

    def end(self) -> None:
        """Take the sign of life away, if it is still this owner's, and give none any more."""
        self._has_ended = True
        if not self.is_lost and self.is_shown():  # else it may be another's by now (G6)
            end_heartbeat(self._storage, self._at)

    def _lose(self) -> None:
        self._is_lost = True
        _log.error(
            "heartbeat of %s lost: no beat for %g s; stopping", self._at, self._pulse.ttl_ms / 2000
        )
        for stop in self._on_lost:
            stop()

    def _content(self, seq: int) -> bytes:
        process = self._world.process
        fields = {
            "owner": self._owner,
            "epoch": self._epoch,
            "seq": seq,
            "host": process.host,
            "pid": process.pid,
        }
        return json.dumps(fields).encode()


@contextmanager
def beating(
    storage: Storage, world: World, at: RequestedAt, pulse: Pulse, *, epoch: int
) -> Iterator[Heart]:
    """Beat for the instant `at` until the block ends; then the file goes, too."""
    heart = Heart(storage, world, at, pulse, epoch)
    heart.beat()
    try:
        with world.background.every(pulse.beat_s, heart.beat):
            yield heart
    finally:
        heart.end()


def end_heartbeat(storage: Storage, at: RequestedAt) -> None:
    """Take the sign of life away; should that fail, it is without meaning once `at` has ended."""
    try:
        storage.delete(layout.heartbeat(at))
    except StorageError as error:
        _log.warning("the heartbeat file of %s stays behind: %s", at, error.what)


def load_heartbeat(storage: Storage, at: RequestedAt) -> bytes:
    """What the heartbeat of `at` says now; nothing if there is none."""
    try:
        return storage.read(layout.heartbeat(at))
    except MissingFile:
        return b""


def heartbeat_owner(content: bytes) -> str:
    """Who gives the signs of life, if they are ours; Apache Hudi's say nothing."""
    try:
        fields = json.loads(content)
        return f"{fields['host']}:{fields['pid']}"
    except (ValueError, KeyError, TypeError):
        return "another engine"


@dataclass(slots=True)
class Watch:
    """Remembers since when each heartbeat was seen unchanged, on the clock of this process."""

    clock: Clock
    ttl_ms: int
    _since: dict[RequestedAt, tuple[bytes, float]] = field(default_factory=dict)

    def has_expired(self, at: RequestedAt, content: bytes) -> bool:
        """Whether the heartbeat, which says `content` now, has not changed for a time to live."""
        now = self.clock.monotonic()
        known = self._since.get(at)
        if known is None or known[0] != content:
            self._since[at] = (content, now)
            return False
        return (now - known[1]) * 1000 >= self.ttl_ms

    def silent_s(self, at: RequestedAt) -> float:
        """For how many seconds the heartbeat was seen unchanged; 0 if nobody looked."""
        known = self._since.get(at)
        return 0.0 if known is None else self.clock.monotonic() - known[1]

    def left_s(self, at: RequestedAt) -> float:
        """How many seconds the heartbeat has left to change before it counts as expired."""
        return max(0.0, self.ttl_ms / 1000 - self.silent_s(at))

    def forget_all_but(self, instants: frozenset[RequestedAt]) -> None:
        """Drop what is known of instants that have ended."""
        for at in self._since.keys() - instants:
            del self._since[at]
