"""An instant: one action on the table, and the states it may pass through.

    (nothing) --request--> REQUESTED --start--> INFLIGHT --complete--> COMPLETED
                               |                    |
                               +------ remove ------+----> (nothing), after a rollback
                               |                    |
                               +------ abort -------+----> ABORTED, a clustering that was cancelled

    a savepoint:  (nothing) --save--> INFLIGHT --complete--> COMPLETED --remove--> (nothing)
    a completed write that a published rollback or restore undoes:  COMPLETED --hide--> INFLIGHT

`timeline.store` performs each transition and nothing else does. ABORTED is terminal and changed no
row; so is COMPLETED otherwise: whoever holds the lock first hides what was decided to be undone, so
that no transaction sees a write whose files are going, and one that was hidden never completes
again (R1). A compaction completes under the name of a commit (`names.completed_action`), so an
instant is identified by its requested time together with the action it completes as; a savepoint
shares its requested time with the commit it protects.
"""

from __future__ import annotations

from dataclasses import dataclass

from lentic.format.names import Action, InstantFile, State, completed_action, format_instant_file
from lentic.format.times import CompletedAt, RequestedAt

WRITES = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
"""Actions that, once completed, change what readers see."""

PLANS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})
"""Actions that execute a plan, perhaps more than once before one execution completes it."""

Identity = tuple[RequestedAt, Action]
"""Names an instant on its timeline: its requested time and the action it completes as."""

_NEXT = {
    None: {State.REQUESTED},
    State.REQUESTED: {State.INFLIGHT, State.ABORTED},
    State.INFLIGHT: {State.COMPLETED, State.ABORTED},
    State.COMPLETED: set(),
    State.ABORTED: set(),
}


@dataclass(frozen=True, slots=True)
class Instant:
    """One action at its furthest state. `completed_at` is set exactly when it is completed."""

    requested_at: RequestedAt
    action: Action
    state: State
    completed_at: CompletedAt | None = None

    def __post_init__(self) -> None:
        assert (self.completed_at is not None) == (self.state is State.COMPLETED), self

    @property
    def is_completed(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def is_pending(self) -> bool:
        return self.state in (State.REQUESTED, State.INFLIGHT)

    @property
    def is_aborted(self) -> bool:
        return self.state is State.ABORTED

    @property
    def identity(self) -> Identity:
        """What stays the same from REQUESTED to COMPLETED."""
        return self.requested_at, completed_action(self.action)

    @property
    def file_name(self) -> str:
        """Name of the timeline file of this state."""
        return format_instant_file(
            InstantFile(self.requested_at, self.action, self.state, self.completed_at)
        )

    def at(self, state: State, completed_at: CompletedAt | None = None) -> Instant:
        """The same action in its next state; a step that is not on the diagram is a bug."""
        assert state in _NEXT[self.state], f"{self.state} -> {state}"
        action = completed_action(self.action) if state is State.COMPLETED else self.action
        return Instant(self.requested_at, action, state, completed_at)

    def __str__(self) -> str:
        return f"{self.action} {self.requested_at}"
