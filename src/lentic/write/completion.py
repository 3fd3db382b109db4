"""Completion: every share of a write counts once, however many attempts there were at it.

An engine may run a task twice, also at the same time, also after the driver has moved on. In
`.hoodie/.completion/` attempts and driver agree on what counts:

    <requested_at>/<digest of share>.completed.json  completion marker: a share is complete, with
                                                     these statuses
    <requested_at>/statuses.json                     the statuses that the driver accepted
    <requested_at>.finalized.json                    finalize marker: the driver's run, and a digest
                                                     of the former

Each is created by put-if-absent and never changed: JSON, with a SHA-256 of its body. The folder
does not lie below `.hoodie/.temp`, because the marker-based rollback of Apache Hudi takes the last
dotted part of every file there for a kind of marker, and would fail on ours.

Who does what when (RFC "Robust spark writes", with the rules and holes of the protocols):

1. Before writing, an attempt asks `is_finalized`, then `find_completed`. The marker holds all
   statuses of the share, so an attempt whose result got lost is not needed again (S12). Its files
   must be there in the length it says, or the data was not durable when it was written (S6).
2. After writing, before step 3, it asks `is_finalized` again. The driver makes that marker before
   it removes what is not accepted; so it either sees this attempt's files, or is seen by it (S3).
3. `complete` lets storage choose one winner: no check followed by a create (S1). A loser removes
   its own files, never a name of the winner's (S10), and reports what the winner wrote. If it is
   killed before that, its begin markers still name the files, and the driver removes them (S2).
   A share is (partition, file id, task, round): two handles on one file group do not meet (S8).
4. The driver calls `finalize` once it has all statuses, before it reconciles: what it accepted is
   durable, then the marker (R7, R8). Another run of the same instant is refused (S5).
5. A task that runs again after that either fails, or serves `load_accepted`: what was accepted, by
   digest, and never what a listing happens to show (S4).
6. After the commit or a rollback `remove_completions(keep_finalized=True)`: an attempt that wakes
   up even later still finds the finalize marker. It goes with a new run of the same plan, or once
   archiving has passed the instant, which stops attempts as well (`write/handle.py`).

Content read from storage is data: no code runs from it (S7), and a path counts only if it is a data
file of the same instant and share. Who may delete more than its own files is decided elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lentic.errors import Corrupt, InstantCancelled, MissingFile, StorageError, WriteConflict
from lentic.format import layout
from lentic.format.names import requested_at_of
from lentic.format.times import RequestedAt
from lentic.storage.base import Storage
from lentic.write.status import WriteStatus, decode_status, encode_status

_HEAD, _MIDDLE, _TAIL = b'{"body":', b',"sha256":"', b'"}'


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """What one handle is responsible for (R6).

    `file_id` is the file group, or what the ids of its file groups begin with, if it may fill
    several. `round` tells handles of one task on one file group apart.
    """

    partition: str
    file_id: str
    task: int
    round: int = 0


@dataclass(frozen=True, slots=True)
class Accepted:
    """A share, and all statuses it is to be committed with; none if it had nothing to write."""

    share: Share
    statuses: tuple[WriteStatus, ...]


@dataclass(frozen=True, slots=True)
class Finalized:
    """Which run of the driver accepted, and the digest of what it accepted."""

    run: int
    digest: str


def find_completed(
    storage: Storage, requested_at: RequestedAt, share: Share
) -> tuple[WriteStatus, ...] | None:
    """The statuses that the share is complete with, by path; None if it is not complete.

    `Corrupt` if the marker is damaged, or names a file that is not there as a whole.
    """
    path = _completion_path(requested_at, share)
    data = _read_if_there(storage, path)
    if data is None:
        return None
    body, _ = _unseal(data, requested_at, path)
    accepted = _parse_own(body, requested_at, path)
    if accepted.share != share:
        raise Corrupt(f"The completion marker is of {accepted.share}, not {share}.", where=path)
    if flaw := _find_flaw(storage, accepted.statuses):
        raise Corrupt(
            f"A completion marker names {flaw}: the data was not durable when the marker was "
            "written, or was removed since.",
            where=path,
            safe="nothing was written or deleted",
            next_step="write again; the failed write is rolled back",
        )
    return accepted.statuses


def complete(
    storage: Storage, requested_at: RequestedAt, share: Share, statuses: Sequence[WriteStatus]
) -> tuple[WriteStatus, ...]:
    """Say that the share is complete with files that are durable; the statuses that count.

    These are another attempt's if that was first; then the files of `statuses` are gone, except
    such as the other attempt names too.
    """
    mine = Accepted(share, _by_path(statuses))
    assert _find_stranger(requested_at, mine) is None, mine
    if flaw := _find_flaw(storage, mine.statuses):
        raise StorageError(
            f"An attempt wrote {flaw}.",
            where=storage.root,
            safe="the share does not count as complete",
            next_step="try again; a new attempt writes new files",
        )
    body = {"requested_at": requested_at, **_accepted_json(mine)}
    if storage.put_if_absent(_completion_path(requested_at, share), _seal(_canonical(body))):
        return mine.statuses
    winner = find_completed(storage, requested_at, share)
    if winner is None:
        raise InstantCancelled(
            f"The write at {requested_at} ended while an attempt at {share} still ran.",
            where=storage.root,
            safe="nothing of this attempt is visible",
            next_step="nothing, if the write was committed; else write again",
        )
    for path in _paths(mine.statuses) - _paths(winner):
        storage.delete(path)
    return winner


def finalize(
    storage: Storage, requested_at: RequestedAt, run: int, accepted: Sequence[Accepted]
) -> None:
    """Make what the driver accepted durable, and from then on refuse whatever comes later.

    May be repeated by the same run with the same set. Anything else is a `WriteConflict`: another
    run has precedence on the same file groups. It is no `InstantCancelled`, for the instant lives
    on in the other run, which may be about to complete it.
    """
    _ensure_once(accepted)
    for one in accepted:
        assert _find_stranger(requested_at, one) is None, one
    content = _canonical(_accepted_set_json(requested_at, accepted))
    mine = Finalized(run, _digest(content))
    # First, so that a latecomer does not put its statuses beside the marker of a run that ended.
    found = load_finalized(storage, requested_at)
    if found is None:
        path, data = layout.accepted_statuses(requested_at), _seal(content)
        if not storage.put_if_absent(path, data) and _read_if_there(storage, path) != data:
            raise _finalized_otherwise(storage, requested_at)
        body = _canonical({"requested_at": requested_at, "run": run, "digest": mine.digest})
        if storage.put_if_absent(layout.finalized(requested_at), _seal(body)):
            return
        found = load_finalized(storage, requested_at)
    if found != mine:
        raise _finalized_otherwise(storage, requested_at)


def load_finalized(storage: Storage, requested_at: RequestedAt) -> Finalized | None:
    """What the finalize marker says; None if there is none, `Corrupt` if it is damaged."""
    path = layout.finalized(requested_at)
    data = _read_if_there(storage, path)
    if data is None:
        return None
    body, _ = _unseal(data, requested_at, path)
    match body:
        case {"run": int(run), "digest": str(digest)}:
            return Finalized(run, digest)
    raise Corrupt("The finalize marker lacks its run or digest.", where=path)


def is_finalized(storage: Storage, requested_at: RequestedAt) -> bool:
    """Whether no attempt may add to the write any more. Costs one look at one file."""
    return storage.info(layout.finalized(requested_at)) is not None


def load_accepted(storage: Storage, requested_at: RequestedAt) -> tuple[Accepted, ...]:
    """What the driver accepted, by share; `Corrupt` unless it is what was finalized.

    `MissingFile` before `finalize`, `InstantCancelled` once the write has ended.
    """
    finalized = load_finalized(storage, requested_at)
    if finalized is None:
        raise MissingFile(
            f"The write at {requested_at} has not been finalized: nothing is accepted yet.",
            where=layout.finalized(requested_at),
            safe="nothing was changed",
            next_step="try again",
        )
    path = layout.accepted_statuses(requested_at)
    data = _read_if_there(storage, path)
    if data is None:
        raise InstantCancelled(
            f"The write at {requested_at} was finalized, and its statuses are gone: it has ended.",
            where=path,
            safe="nothing was changed",
            next_step="nothing, if the write was committed; else write again",
        )
    body, digest = _unseal(data, requested_at, path)
    if digest != finalized.digest:
        raise Corrupt("The accepted statuses are not those that were finalized.", where=path)
    found = body.get("accepted")
    if not isinstance(found, list):
        raise Corrupt("The accepted statuses are no list.", where=path)
    return tuple(_parse_own(one, requested_at, path) for one in found)


def statuses_of(accepted: Iterable[Accepted]) -> tuple[WriteStatus, ...]:
    """All statuses, in the order of their paths."""
    return _by_path(status for one in accepted for status in one.statuses)


def encode_accepted(accepted: Accepted) -> str:
    """JSON text of a share and its statuses, for the way from a handle to the driver."""
    return _canonical(_accepted_json(accepted)).decode()


def decode_accepted(text: str) -> Accepted:
    """What `encode_accepted` wrote."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"The report of a handle does not decode: {error!r}") from error
    return _parse_accepted(value, "")


def remove_completions(
    storage: Storage, requested_at: RequestedAt, *, keep_finalized: bool
) -> None:
    """Take completion markers and accepted statuses away, and the finalize marker last if at all:
    attempts that still run are refused for as long as anything is left."""
    for file in storage.walk(layout.completions(requested_at)):
        storage.delete(file.path)
    storage.prune(layout.completions(requested_at))
    if not keep_finalized:
        storage.delete(layout.finalized(requested_at))


def list_with_completions(storage: Storage) -> tuple[frozenset[RequestedAt], ...]:
    """The instants that have completion markers or statuses, and those with a finalize marker."""
    prefix = layout.COMPLETIONS + "/"
    paths = [file.path.removeprefix(prefix) for file in storage.walk(layout.COMPLETIONS)]
    shared = {path.partition("/")[0] for path in paths if "/" in path}
    finalized = {path.partition(".")[0] for path in paths if "/" not in path}
    return tuple(
        frozenset(RequestedAt(name) for name in names if name.isascii() and name.isdigit())
        for names in (shared, finalized)
    )


def _finalized_otherwise(storage: Storage, requested_at: RequestedAt) -> WriteConflict:
    return WriteConflict(
        f"The write at {requested_at} was finalized with other statuses or by another run.",
        where=storage.root,
        safe="nothing of this run is visible, and nothing of the other was touched",
        next_step="look whether the other run committed it (lentic timeline); if not, write again",
    )


def _ensure_once(accepted: Sequence[Accepted]) -> None:
    """One attempt per share, one status per file: or rows would be there twice."""
    shares = {one.share for one in accepted}
    statuses = statuses_of(accepted)
    if len(shares) < len(accepted) or len(_paths(statuses)) < len(statuses):
        raise WriteConflict(
            "Two attempts at one share of the write, or two statuses of one file, were reported.",
            safe="nothing was committed",
            next_step="write again",
        )


def _find_flaw(storage: Storage, statuses: Iterable[WriteStatus]) -> str | None:
    """What is wrong with the first file that is not there as its status says."""
    for status in statuses:
        path, size = status.stat.path, status.stat.size
        info = storage.info(path)
        if info is None:
            return f"{path!r}, which is not there"
        if info.size != size:
            return f"{path!r} as {size} bytes, which has {info.size}"
    return None


def _find_stranger(requested_at: RequestedAt, accepted: Accepted) -> str | None:
    """The first path that is not a data file of this instant and share, or comes twice."""
    share, seen = accepted.share, set[str]()
    for status in accepted.statuses:
        stat = status.stat
        is_ours = (
            layout.is_data_path(stat.path)
            and requested_at_of(stat.name) == requested_at
            and stat.path == layout.data_file(share.partition, stat.name)
            and stat.file_id.startswith(share.file_id)
            and stat.log_files in ((), (stat.name,))
        )
        if not is_ours or stat.path in seen:
            return stat.path
        seen.add(stat.path)
    return None


def _by_path(statuses: Iterable[WriteStatus]) -> tuple[WriteStatus, ...]:
    return tuple(sorted(statuses, key=lambda status: status.stat.path))


def _paths(statuses: Iterable[WriteStatus]) -> frozenset[str]:
    return frozenset(status.stat.path for status in statuses)


def _completion_path(requested_at: RequestedAt, share: Share) -> str:
    """By digest: a partition may hold slashes, be long, or differ from another in case alone."""
    return layout.completion(requested_at, _digest(_canonical(asdict(share))))


def _read_if_there(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except MissingFile:
        return None


def _accepted_json(accepted: Accepted) -> dict[str, Any]:
    statuses = [json.loads(encode_status(status)) for status in _by_path(accepted.statuses)]
    return {"share": asdict(accepted.share), "statuses": statuses}


def _accepted_set_json(requested_at: RequestedAt, accepted: Iterable[Accepted]) -> dict[str, Any]:
    """The same for the same set, in whatever order tasks finished."""
    ordered = sorted(accepted, key=lambda one: one.share)
    return {"requested_at": requested_at, "accepted": [_accepted_json(one) for one in ordered]}


def _parse_accepted(value: object, where: str) -> Accepted:
    match value:
        case {
            "share": {
                "partition": str(partition),
                "file_id": str(file_id),
                "task": int(task),
                "round": int(round_),
            },
            "statuses": list(found),
        }:
            try:
                statuses = _by_path(decode_status(json.dumps(status)) for status in found)
            except Corrupt as error:
                raise Corrupt(error.what, where=where) from error
            return Accepted(Share(partition, file_id, task, round_), statuses)
    raise Corrupt("Not a share and its statuses.", where=where)


def _parse_own(value: object, requested_at: RequestedAt, where: str) -> Accepted:
    accepted = _parse_accepted(value, where)
    stranger = _find_stranger(requested_at, accepted)
    if stranger is not None:
        what = f"{stranger!r} is no file of {accepted.share} at {requested_at}."
        raise Corrupt(what, where=where)
    return accepted


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _seal(content: bytes) -> bytes:
    return _HEAD + content + _MIDDLE + _digest(content).encode() + _TAIL


def _unseal(data: bytes, requested_at: RequestedAt, where: str) -> tuple[dict[str, Any], str]:
    """Body and digest; `Corrupt` if a byte is missing or changed, or it is another instant's."""
    content = data.removeprefix(_HEAD).rpartition(_MIDDLE)[0]
    if _seal(content) != data:
        raise Corrupt("The file is damaged: it does not match its checksum.", where=where)
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"The file does not decode: {error!r}", where=where) from error
    if not isinstance(body, dict) or body.get("requested_at") != requested_at:
        raise Corrupt(f"The file does not belong to the write at {requested_at}.", where=where)
    return body, _digest(content)
