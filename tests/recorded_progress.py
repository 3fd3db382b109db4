"""A progress that remembers all it is told, for the tests of both engines."""

from __future__ import annotations

from dataclasses import dataclass, field

from lentic.progress import Measure
from lentic.write.commit import Commit


@dataclass
class Recorded:
    """One stage, with every state it was shown in."""

    title: str
    total: int | None
    states: list[tuple[int, int | None, Measure]] = field(default_factory=list)
    ends: int = 0

    def show(self, done: int, total: int | None, made: Measure) -> None:
        assert not self.ends, "nothing is shown after the end"
        self.states.append((done, total, made))

    def end(self) -> None:
        self.ends += 1

    @property
    def made(self) -> Measure:
        return self.states[-1][2] if self.states else Measure()

    @property
    def is_full(self) -> bool:
        """Ended once, with every task done, and never went back."""
        done = [state[0] for state in self.states]
        return self.ends == 1 and done == sorted(done) and done[-1] == self.states[-1][1]


@dataclass
class Recording:
    """All stages, in the order in which they began."""

    stages: list[Recorded] = field(default_factory=list)

    def begin(self, title: str, total: int | None) -> Recorded:
        self.stages.append(Recorded(title, total))
        return self.stages[-1]

    @property
    def titles(self) -> list[str]:
        return [stage.title for stage in self.stages]

    @property
    def made(self) -> Measure:
        return sum((stage.made for stage in self.stages), Measure())


def measure_commit(commit: Commit) -> Measure:
    """What progress must have come to when the commit is there."""
    changed = commit.inserted + commit.updated + commit.deleted
    return Measure(changed, commit.files, commit.bytes)
