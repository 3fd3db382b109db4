"""What to type next, for a shell and for Python, where `t` is the table. Pure.

Either text can be typed as it stands: no placeholder, no "or".
"""

from __future__ import annotations

from dataclasses import dataclass

from lentic.errors import shell_command


@dataclass(frozen=True, slots=True)
class NextStep:
    """One thing that may be done now."""

    shell: str
    python: str

    def __str__(self) -> str:
        return self.shell


def step(root: str, command: str, *arguments: str, python: str) -> NextStep:
    """`lentic <command>` on the table at `root`, and the call that does the same."""
    return NextStep(shell_command(command, root, *arguments), python)


def execute(root: str, at: str) -> NextStep:
    return step(root, "execute", at, python=f't.execute("{at}")')


def roll_back(root: str, at: str) -> NextStep:
    return step(root, "rollback", at, python=f't.rollback("{at}")')


def cancel(root: str, at: str) -> NextStep:
    return step(root, "cancel", at, python=f't.request_cancel("{at}")')


def abort(root: str, at: str) -> NextStep:
    return step(root, "abort", at, python=f't.execute_abort("{at}")')


def clean(root: str) -> NextStep:
    return step(root, "clean", python="t.clean(wait=True)")


def archive(root: str) -> NextStep:
    return step(root, "archive", python="t.archive()")


def compact(root: str) -> NextStep:
    return step(root, "compact", python="t.compact()")


def cluster(root: str) -> NextStep:
    return step(root, "cluster", python="t.cluster()")


def cluster_for_sure(root: str) -> NextStep:
    return step(root, "cluster", "--no-cancellable", python="t.cluster(cancellable=False)")


def verify(root: str) -> NextStep:
    return step(root, "verify", python="t.verify()")


def list_plans(root: str) -> NextStep:
    return step(root, "plans", python="t.plans()")


def show_timeline(root: str) -> NextStep:
    return step(root, "timeline", python="t.timeline()")


def show_history(root: str) -> NextStep:
    """The archived part of the timeline, too."""
    return step(root, "timeline", "--all", python="t.history()")


def ask_why(root: str, what: str) -> NextStep:
    return step(root, "why", what, python=f"t.why({what!r})")


def restore(root: str, at: str) -> NextStep:
    return step(root, "restore", at, python=f't.restore("{at}")')


def remove_savepoint(root: str, at: str) -> NextStep:
    call = f't.remove_savepoint("{at}")'
    return step(root, "savepoint", "--at", at, "--remove", python=call)
