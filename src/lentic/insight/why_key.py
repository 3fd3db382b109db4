"""Where a record lies, which versions of it there are, and why one of them won. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lentic.format.bucket import parse_bucket
from lentic.insight.answers import Answer, Reason, Version
from lentic.services import next_steps
from lentic.view.files import FileGroupId


@dataclass(frozen=True, slots=True)
class Found:
    """The versions of a record in one file group, in merge order, and whether readers see a row."""

    group: FileGroupId
    versions: tuple[Version, ...]
    row_commit: str | None
    latest: str
    """The barrier of the group's latest slice, which is what readers read."""


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What was found of one key."""

    root: str
    key: str
    found: tuple[Found, ...]
    ordering: tuple[str, ...] = ()
    bucket: int | None = None
    buckets: int | None = None
    partition: str | None = None
    looked_into: int = 0
    not_looked_at: tuple[str, ...] = ()


def explain_key(facts: KeyFacts) -> Answer:
    """Where the record is, and how it became what it is."""
    judged = [_judge(found, facts.ordering) for found in facts.found]
    reasons = list(_list_reasons(facts, [said for _, said in judged]))
    versions = tuple(version for marked, _ in judged for version in marked)
    current = [found for found in facts.found if found.row_commit is not None]
    if len(current) > 1:
        where = ", ".join(str(found.group) for found in current)
        reasons.append(Reason("twice", f"readers see it {len(current)} times: in {where}"))
    if not facts.found:
        reasons.append(_nowhere(facts))
    won = dict.fromkeys(version.commit for version in versions if version.won)
    return Answer(
        question=facts.key,
        kind="key",
        facts=tuple(_list_facts(facts, versions)),
        reasons=tuple(reasons),
        next_steps=tuple(next_steps.ask_why(facts.root, commit) for commit in won),
        versions=versions,
        not_looked_at=facts.not_looked_at,
    )


def _list_reasons(facts: KeyFacts, judged: Sequence[Sequence[Reason]]) -> Iterator[Reason]:
    """What was said of each file group, which is named if there are several."""
    for found, said in zip(facts.found, judged, strict=True):
        for reason in said:
            names = len(judged) > 1 and reason.code != "only-older"  # that names it anyhow
            yield replace(reason, says=f"in {found.group}: {reason.says}") if names else reason


def _list_facts(facts: KeyFacts, versions: Sequence[Version]) -> Iterator[tuple[str, str]]:
    if facts.bucket is not None:
        yield "bucket", f"{facts.bucket} of {facts.buckets}"
    yield "file groups looked into", str(facts.looked_into)
    for found in facts.found:
        number = parse_bucket(found.group.file_id) if facts.buckets else None
        yield "file group", f"{found.group}" + ("" if number is None else f", bucket {number}")
        yield "slice", found.latest
        yield "visible", "yes" if found.row_commit is not None else "no"
    if versions:
        yield "ordering", ", ".join(facts.ordering) or "none: the later write wins"
        commits = dict.fromkeys(version.commit for version in versions)
        yield "changed by", ", ".join(sorted(commits))


def _nowhere(facts: KeyFacts) -> Reason:
    where = "the table" if facts.partition is None else f"partition {facts.partition!r}"
    says = f"no file of {where} that was looked into has the key"
    if facts.bucket is not None:
        says += f"; it would lie in bucket {facts.bucket}"
    return Reason("no-such-key", says)


def _judge(
    found: Found, ordering: tuple[str, ...]
) -> tuple[tuple[Version, ...], tuple[Reason, ...]]:
    """The versions with the winner marked, and why it won."""
    rivals = [v for v in found.versions if v.slice == found.latest]
    winner = _winner(found, rivals)
    marked = tuple(replace(v, won=v is winner) for v in found.versions)
    if winner is None:
        says = f"the latest slice of {found.group} has no version of it; older slices do"
        return marked, (Reason("only-older", says),)
    return marked, tuple(_why_it_won(winner, rivals, ordering))


def _winner(found: Found, rivals: Sequence[Version]) -> Version | None:
    """The version that readers see, or the delete because of which they see none."""
    if found.row_commit is None:
        return next((v for v in reversed(rivals) if v.kind == "delete"), None)
    rows = [v for v in rivals if v.kind != "delete"]
    mine = [v for v in rows if v.commit == found.row_commit]
    return max(mine or rows, key=lambda v: (_sortable(v), rivals.index(v)), default=None)


def _sortable(version: Version) -> bool:
    return version.kind == "log"


def _why_it_won(
    winner: Version, rivals: Sequence[Version], ordering: tuple[str, ...]
) -> Iterator[Reason]:
    others = [v for v in rivals if v is not winner]
    what = "delete" if winner.kind == "delete" else "row"
    who = f"the {what} of {winner.commit}"
    if any(v.is_partial for v in rivals) and winner.kind != "delete":
        partial = sorted({v.commit for v in rivals if v.is_partial})
        says = f"its columns come from several writes: {', '.join(partial)} carried some of them"
        yield Reason("joined", says)
        return
    if not others:
        yield Reason("only-version", f"{who} is the only version in the latest slice")
        return
    if winner.kind == "delete" and (not ordering or all(v is None for v in winner.ordering)):
        says = f"{who} has no ordering value: it wins over all that came before it"
        yield Reason("hard-delete", says)
    elif not ordering:
        says = f"{who} won: without ordering fields the write that completed last does"
        yield Reason("last-write", says)
    elif any(v.ordering == winner.ordering for v in others):
        says = f"{who} won the tie at {_said(winner, ordering)}: it came later"
        yield Reason("tie", says)
    else:
        yield Reason("greatest", f"{who} won: {_said(winner, ordering)} is the greatest")
    late = [v for v in others if rivals.index(v) > rivals.index(winner)]
    for version in late:
        says = f"{version.commit} came later with {_said(version, ordering)} and changed nothing"
        yield Reason("late", says)


def _said(version: Version, ordering: tuple[str, ...]) -> str:
    pairs = zip(ordering, version.ordering, strict=False)
    return ", ".join(f"{name}={value}" for name, value in pairs) or "no ordering value"
