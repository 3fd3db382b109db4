"""`why`: from what a user typed to the facts that answer it."""

from __future__ import annotations

from lentic.config.sharing import FailedWrites
from lentic.coordination.heartbeat import heartbeat_owner, load_heartbeat
from lentic.errors import (
    ConfigError,
    Corrupt,
    InvalidPath,
    MissingFile,
    shell_command,
)
from lentic.format import layout
from lentic.format.cancellable import Cancellation
from lentic.format.commit_metadata import CommitMetadata
from lentic.format.names import Action, requested_at_of
from lentic.format.restore import decode_undone
from lentic.format.times import RequestedAt
from lentic.insight.answers import Answer
from lentic.insight.key_versions import bucket_of, candidates, load_place
from lentic.insight.load import load_facts, load_stops, load_undone
from lentic.insight.why_file import explain_file
from lentic.insight.why_instant import InstantFacts, explain_instant
from lentic.insight.why_key import Found, KeyFacts, explain_key
from lentic.query.source import load_source
from lentic.services.archive import list_due
from lentic.services.due import is_archive_due
from lentic.services.plans import age_s, heartbeat_age_s, is_planned, load_plan
from lentic.storage.base import Storage
from lentic.storage.open import locate_inside
from lentic.timeline.aborted_history import load_aborted
from lentic.timeline.history import load_archived, load_archived_after
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import (
    decode_write,
    load_clustering_claim,
    load_commit_metadata,
    load_timeline,
)
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable
from lentic.view.listing import load_partition_files, load_table_files, load_writes
from lentic.write import markers

KINDS = ("instant", "file", "key")
_TIME_DIGITS = (14, 17)
_GROUPS_MAX = 2_000


def ask_why(
    table: OpenTable, what: str, *, kind: str | None = None, partition: str | None = None
) -> Answer:
    """Why an instant, a data file or a record is as it is; nothing is changed.

    What 14 or 17 digits are is an instant, what is called like a data file is one, and everything
    else is a record key; `kind` says otherwise. `partition` narrows the search for a key.
    """
    match kind or guess_kind(what):
        case "instant":
            return explain_instant(load_instant_facts(table, what))
        case "file":
            path = find_path(table, what)
            folder, _, name = path.rpartition("/")
            maker = requested_at_of(name)
            also = frozenset({maker}) if maker else frozenset()
            return explain_file(load_facts(table, [folder], also), path)
        case "key":
            return explain_key(load_key_facts(table, what, partition))
        case unknown:
            raise ConfigError(
                f"There is no kind {unknown!r} of question.",
                safe="nothing was read",
                next_step=f"choose among {', '.join(KINDS)}",
            )


def guess_kind(what: str) -> str:
    """What a text names, by its form."""
    if requested_at_of(what.rpartition("/")[2]) is not None:
        return "file"
    is_time = what.isascii() and what.isdigit() and len(what) in _TIME_DIGITS
    return "instant" if is_time else "key"


# --- instants -----------------------------------------------------------------------------------


def load_instant_facts(table: OpenTable, what: str) -> InstantFacts:
    """All that is known of the instant requested at `what`; `ConfigError` if nothing is."""
    if not (what.isascii() and what.isdigit()):
        raise ConfigError(
            f"{what!r} is no instant's time: that has digits only.",
            safe="nothing was read",
            next_step=shell_command("timeline", table.storage.root),
        )
    at, storage, timeline = RequestedAt(what), table.storage, load_timeline(table.storage)
    found = _find(timeline, at)
    archived = None if found else _find_archived(storage, at)
    undoing = tuple(i for target, i in load_undone(storage, timeline).items() if target == at)
    if not (found or undoing):
        undoing = _archived_rollbacks(storage, at) if archived is None else ()
    if not (found or archived or undoing):
        raise ConfigError(
            f"There is no instant {at}, and no rollback tells of one.",
            where=storage.root,
            safe="nothing was changed",
            next_step=f"{shell_command('timeline', storage.root, '--all')}; or, if it is a key: "
            f"{shell_command('why', storage.root, what, '--kind', 'key')}",
        )
    beat = heartbeat_age_s(table, at) if found and found.is_pending else None
    is_plan = found is not None and found.is_pending and is_planned(found)
    return InstantFacts(
        root=storage.root,
        at=at,
        timeline=timeline,
        options=table.services.archive,
        found=found or (archived[0] if archived else None),
        is_archived=archived is not None,
        metadata=_metadata(storage, found, archived),
        cancelled=_load_cancelled(storage, found),
        plan=load_plan(table, timeline, found) if found and is_plan else None,
        owner="" if beat is None else heartbeat_owner(load_heartbeat(storage, at)),
        heartbeat_age_s=beat,
        ttl_s=table.pulse.ttl_ms / 1000,
        age_s=age_s(table, at),
        undoing=undoing,
        announced=len(markers.list_announced(storage, at)),
        is_alone=table.sharing.failed_writes is FailedWrites.EAGER,
        is_archive_due=is_archive_due(timeline, table.services.archive),
        barriers=load_stops(storage, timeline),
        due=list_due(table, timeline),
    )


def _find(timeline: Timeline, at: RequestedAt) -> Instant | None:
    """The instant at `at`; a savepoint, which has the time of its write, only if it is alone."""
    named = [i for i in timeline.instants if i.requested_at == at]
    named.sort(key=lambda instant: instant.action is Action.SAVEPOINT)
    return named[0] if named else None


def _find_archived(storage: Storage, at: RequestedAt) -> tuple[Instant, bytes] | None:
    contents = load_archived(storage, {at}).contents.items()
    aborted = ((plan, b"") for plan in load_aborted(storage))
    return next(((i, c) for i, c in (*contents, *aborted) if i.requested_at == at), None)


def _metadata(
    storage: Storage, found: Instant | None, archived: tuple[Instant, bytes] | None
) -> CommitMetadata | None:
    if found is not None and found.is_completed and found.action in WRITES:
        return load_commit_metadata(storage, found)
    if archived is not None and archived[0].action in WRITES:
        return decode_write(archived[1], archived[0], f"{layout.HISTORY} {archived[0]}")
    return None


def _load_cancelled(storage: Storage, found: Instant | None) -> Cancellation:
    """What an aborted plan says of its end; nothing of one that is archived meanwhile."""
    if found is None or not found.is_aborted:
        return Cancellation()
    try:
        return load_clustering_claim(storage, found).cancellation
    except (Corrupt, MissingFile):
        return Cancellation()


def _archived_rollbacks(storage: Storage, at: RequestedAt) -> tuple[Instant, ...]:
    """The rollbacks and restores in the history that undid the instant."""
    history = load_archived_after(storage, str(at), Action.ROLLBACK, Action.RESTORE)
    return tuple(
        instant
        for instant, content in history.contents.items()
        if at in {one.requested_at for one in decode_undone(content, f"{layout.HISTORY} {instant}")}
    )


# --- files --------------------------------------------------------------------------------------


def find_path(table: OpenTable, what: str) -> str:
    """The path, within the table, of the data file that a name or path means.

    A path may begin at the table or, on a local disk, at the current directory: that is how a
    shell completes it. A name is a file's own in the whole table, whatever stands before it.
    """
    root = table.storage.root.rstrip("/")
    name = what.rpartition("/")[2]
    at = requested_at_of(name)
    paths = _parse_paths(root, what)
    if at is None or not paths:
        raise InvalidPath(
            f"{what!r} is no data file of this table.",
            where=root,
            safe="nothing was read",
            next_step="name a base or log file, as the storage lists it",
        )
    for path in paths:
        if table.storage.info(path) is not None:
            return path
    if (known := _find_named(table.storage, at, name)) is not None:
        return known
    if "/" in paths[0]:
        return paths[0]
    for file in table.storage.walk(""):
        if file.name == name and not file.path.startswith(layout.HOODIE + "/"):
            return file.path
    raise ConfigError(
        f"There is no file {name}, and no commit or marker names one.",
        where=root,
        safe="nothing was changed",
        next_step="look whether the name is complete, with its write token and its extension",
    )


def _parse_paths(root: str, what: str) -> tuple[str, ...]:
    """The paths within the table that a text may mean, the likelier first."""
    written = what.removeprefix("file://").removeprefix(root + "/").removeprefix("./")
    located = locate_inside(root, what)
    found = (located, written) if located else (written,)
    return tuple(path for path in dict.fromkeys(found) if layout.is_data_path(path))


def _find_named(storage: Storage, at: RequestedAt, name: str) -> str | None:
    """The file of that name which the write at `at` names, or its markers announce."""
    writes = load_writes(storage, load_timeline(storage), {at})
    named = writes[at].paths if at in writes else frozenset()
    announced = markers.list_announced(storage, at)
    known = (*sorted(named), *announced)
    return next((path for path in known if path.rpartition("/")[2] == name), None)


# --- keys ---------------------------------------------------------------------------------------


def load_key_facts(table: OpenTable, key: str, partition: str | None) -> KeyFacts:
    """Where the key lies, and every version of it that is still there."""
    if not key:
        raise ConfigError(
            "An empty text is no key.",
            safe="nothing was read",
            next_step="name an instant, a data file or a record key",
        )
    source, config = load_source(table), table.config
    storage, timeline = table.storage, source.timeline
    if partition is None:
        files = load_table_files(storage, timeline)
    else:
        files = load_partition_files(storage, timeline, [partition])
    bucket = bucket_of(key, config)
    groups = candidates(files.groups(), bucket)
    places = [load_place(source, group, key, files.writes) for group in groups[:_GROUPS_MAX]]
    left = len(groups) - _GROUPS_MAX
    return KeyFacts(
        root=storage.root,
        key=key,
        found=tuple(
            Found(p.group.id, p.versions, p.row_commit, str(p.group.latest.barrier))
            for p in places
            if p
        ),
        ordering=source.reader.ordering,
        bucket=bucket,
        buckets=config.buckets,
        partition=partition,
        looked_into=min(len(groups), _GROUPS_MAX),
        not_looked_at=(f"{left} file group(s): name the partition of the key",) if left > 0 else (),
    )
