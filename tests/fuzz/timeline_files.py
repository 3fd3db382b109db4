"""Damaged timeline files, plans, properties and markers: content that lies, and names that do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random

from lentic.format import layout
from lentic.format.avro import decode_container
from lentic.format.commit_metadata import (
    SCHEMA_KEY,
    decode_commit_metadata,
    encode_commit_metadata,
)
from lentic.format.names import Action
from lentic.format.plans import RollbackPlan, encode_rollback_plan
from lentic.format.times import RequestedAt
from lentic.storage.base import Storage
from tests.fuzz import hostile
from tests.fuzz.case import ROOT, Ask, Case, Kind, Target, is_full, seed
from tests.fuzz.tables import (
    NARROW,
    cdc,
    changes,
    files_of,
    golden_files,
    narrow_rows,
    one_path,
    open_table,
    options,
    ordered,
    reading,
    timeline,
    written,
)

DEAD = "20270115075900000"
"""A write that died: it has markers, and a log that no commit names."""
UNDONE = "20270115075900001"
"""Another one, whose rollback died as well."""
ROLLBACK = "20270115075900002"

_MARKERS = f"{layout.TEMP}/{DEAD}"
_FILE_ID = "00000000-0000-0000-0000-000000000000-0"


def targets() -> Mapping[str, Target]:
    """`cow` and `mor` are ours and have work left to do, the others Apache Hudi's."""
    reads: dict[str, Ask] = {"read": reading(), "changes": changes, "timeline": timeline}
    many = {"hoodie.bucket.index.num.buckets": 12}
    cow = written(
        NARROW,
        options("COPY_ON_WRITE", **many),
        narrow_rows(0, 30, 1),
        narrow_rows(20, 40, 2, "p1"),
        narrow_rows(5, 15, 3),
    )
    return {
        "cow": Target(
            files_of(cow),
            reads | {"filter": reading(filter="id = 'k00003'"), "cdc": cdc, "upsert": _upsert},
        ),
        "mor": Target(_mor_files(), reads | {"execute": _execute, "upsert": _upsert}),
        "cow_part_ops": Target(golden_files("cow_part_ops"), reads),
        "cow_clean_archive": Target(
            golden_files("cow_clean_archive"), {"as_of": reading(as_of="20261115095307102")}
        ),
        "mor_clean_archive": Target(golden_files("mor_clean_archive"), reads),
    }


def _mor_files() -> dict[str, bytes]:
    """Deltacommits, a compaction, another one planned, a dead write and a dead rollback."""
    storage = written(
        NARROW, options("MERGE_ON_READ"), narrow_rows(0, 30, 1), narrow_rows(10, 20, 3)
    )
    open_table(storage).compact()
    open_table(storage).upsert(narrow_rows(0, 25, 2))
    open_table(storage).schedule("compaction")
    files = files_of(storage)
    dead, undone = (f"p0/.{_FILE_ID}_{at}.log.1_7-7-7" for at in (DEAD, UNDONE))
    plan = RollbackPlan(RequestedAt(UNDONE), Action.DELTACOMMIT, (undone,))
    for at in (DEAD, UNDONE):
        files[layout.timeline_file(f"{at}.deltacommit.requested")] = b""
        files[layout.timeline_file(f"{at}.deltacommit.inflight")] = b""
    files[layout.timeline_file(f"{ROLLBACK}.rollback.requested")] = encode_rollback_plan(plan, ROOT)
    files[f"{_MARKERS}/{dead}.marker.CREATE"] = b""
    files[f"{_MARKERS}/MARKERS.type"] = b"TIMELINE_SERVER_BASED"
    files[f"{_MARKERS}/MARKERS0"] = f"{dead}.marker.CREATE\n".encode()
    return files | {dead: b"part of a log", undone: b"part of a log"}


def _upsert(storage: Storage) -> object:
    """Write a row, which first cleans up after the dead, and read everything."""
    before = _committed_files(storage)
    try:
        open_table(storage).upsert(narrow_rows(500, 501, 9))
    finally:
        _ensure_kept(storage, before)
    return ordered(open_table(storage).read())


def _execute(storage: Storage) -> object:
    """Carry out the pending compaction and read everything."""
    before = _committed_files(storage)
    plan = next(i for i in open_table(storage).timeline() if i.action is Action.COMPACTION)
    try:
        open_table(storage).execute(plan.requested_at)
    finally:
        _ensure_kept(storage, before)
    return ordered(open_table(storage).read())


def _committed_files(storage: Storage) -> set[str]:
    """What no clean-up may take: everything outside the timeline but what the dead left."""
    paths = {file.path for file in storage.walk("") if not file.path.startswith(".hoodie/")}
    return {path for path in paths if DEAD not in path and UNDONE not in path}


def _ensure_kept(storage: Storage, paths: set[str]) -> None:
    gone = sorted(path for path in paths if storage.info(path) is None)
    assert not gone, f"committed files were deleted: {gone}"


def cases(tables: Mapping[str, Target]) -> Iterator[Case]:
    chance = Random(f"timeline {seed()}")
    full = is_full()
    mor, cow = tables["mor"].files, tables["cow"].files
    of_contents: Sequence[tuple[str, str, str, Sequence[str]]] = (
        ("properties", "cow", layout.PROPERTIES, ("read", "filter", "upsert")),
        ("properties", "mor", layout.PROPERTIES, ("read", "changes")),
        ("properties", "mor_clean_archive", layout.PROPERTIES, ("read",)),
        ("commit", "cow", one_path(cow, ".commit"), ("read", "changes", "cdc", "upsert")),
        ("commit", "mor", one_path(mor, ".commit"), ("read", "changes", "execute")),
        ("deltacommit", "mor", one_path(mor, ".deltacommit"), ("read", "changes", "upsert")),
        ("commit", "cow_part_ops", "_*.commit", ("read", "changes")),
        ("replacecommit", "cow_part_ops", "_*.replacecommit", ("read", "changes")),
        ("clean", "cow_clean_archive", "_*.clean", ("as_of",)),
        ("plan", "mor", one_path(mor, ".compaction.requested"), ("execute", "read", "upsert")),
        ("rollback plan", "mor", one_path(mor, ".rollback.requested"), ("upsert", "read")),
        ("inflight", "mor", one_path(mor, f"{DEAD}.deltacommit.inflight"), ("read", "upsert")),
        ("marker", "mor", f"{_MARKERS}/MARKERS0", ("upsert", "read")),
        ("marker", "mor", f"{_MARKERS}/MARKERS.type", ("upsert",)),
        ("partition metadata", "cow", "p0/.hoodie_partition_metadata", ("read", "upsert")),
    )
    for what, target, path, asks in of_contents:
        for ask in asks:
            paths = _matching(tables[target].files, path)
            count = (360 if full else 24) // len(paths)
            for one in paths:
                yield from _contents(what, tables, target, one, ask, count, chance)
    yield from _lines_of_properties(tables)
    yield from _schemas(tables, 200 if full else 20, chance)
    yield from _plans_of_others(tables)
    yield from _names(tables, 1_200 if full else 120, chance)
    yield from _marker_names(tables, 300 if full else 40, chance)


def _matching(files: Mapping[str, bytes], path: str) -> list[str]:
    """The path itself, or for `_*.commit` the completed commits, at most three."""
    if not path.startswith("_*"):
        return [path]
    ending = path.removeprefix("_*")
    found = [p for p in files if p.startswith(f"{layout.TIMELINE}/2") and p.endswith(ending)]
    return sorted(p for p in found if "_" in p)[-3:]


def _contents(
    what: str,
    tables: Mapping[str, Target],
    target: str,
    path: str,
    ask: str,
    count: int,
    chance: Random,
) -> Iterator[Case]:
    files = tables[target].files
    others = [
        data
        for other, data in sorted(files.items())
        if other.startswith(".hoodie/timeline/2") and data not in (b"", files[path])
    ]
    found = hostile.contents(files[path], others, chance)
    for _ in range(count):
        content = next(found)
        if content.data == files[path]:
            continue
        note = f"{target}: {content.way} {content.note}, {path}, {ask}"
        names = (path.rpartition("/")[2], *_ALSO_NAMED.get(what, ()))
        excuse = _excuse(what, content)
        if excuse:  # then it is other legal content, and what does not fit it is named
            names = ()
        yield Case(what, note, target, ask, {path: content.data}, names, excuse)


_ALSO_NAMED = {"properties": ("bucket count",)}
"""What an error may name instead of the file: the property that it lost."""


def _excuse(what: str, content: hostile.Content) -> str:
    if content.way == "other file" and (what == "plan" or _is_commit_of_nothing(content.data)):
        return "FILE_OF_ANOTHER_INSTANT"
    return "TIMELINE_HAS_NO_CHECKSUM" if content.way in hostile.EXCUSED else ""


def _is_commit_of_nothing(data: bytes) -> bool:
    """Whether this is the metadata of a write that made no file, such as deleting a partition."""
    record = decode_container(data, "whole") or {}
    return record.get("partitionToWriteStats") == {}


def _lines_of_properties(tables: Mapping[str, Target]) -> Iterator[Case]:
    """Properties without their end or one of their lines, or that name an absent column."""
    for target, asks in (("cow", ("read", "filter", "upsert")), ("mor", ("read", "changes"))):
        whole = tables[target].files[layout.PROPERTIES]
        for lost, ask in product(range(1, 4), asks):
            changed = {layout.PROPERTIES: whole[:-lost]}
            yield Case("properties: lines", f"{target}: cut by {lost}, {ask}", target, ask, changed)
        lines = whole.splitlines(keepends=True)
        for number, line in enumerate(lines):
            key = line.partition(b"=")[0]
            others = [b""]
            if key.endswith(b".fields") and b"table" in key:
                others.append(key + b"=absent\n")
            for ask, other in product(asks, others):
                text = b"".join([*lines[:number], other, *lines[number + 1 :]])
                note = f"{target}: {other.decode() or 'without ' + key.decode()}, {ask}"
                changed = {layout.PROPERTIES: text}
                yield Case("properties: lines", note, target, ask, changed)


def _schemas(tables: Mapping[str, Target], count: int, chance: Random) -> Iterator[Case]:
    """The newest commit, whole, with a schema that is none."""
    files = tables["cow"].files
    path = one_path(files, ".commit")
    metadata = decode_commit_metadata(files[path], path)
    schema = metadata.extra[SCHEMA_KEY]
    texts = ["[" * 100_000, "null", "1", '""', "{}", '{"type":"record"}', "\ud800", schema[:-1]]
    texts += [schema[: chance.randrange(1, len(schema))] for _ in range(count)]
    for text in texts:
        extra = {**metadata.extra, SCHEMA_KEY: text.encode(errors="replace").decode()}
        changed = {path: encode_commit_metadata(replace(metadata, extra=extra))}
        note = f"cow: {text[-20:]!r}"
        yield Case("schema in commit", note, "cow", "read", changed, (path.rpartition("/")[2],))


def _plans_of_others(tables: Mapping[str, Target]) -> Iterator[Case]:
    """A rollback plan that names files which other, completed instants wrote."""
    files = tables["mor"].files
    path = one_path(files, ".rollback.requested")
    for victim in _committed(files):
        plan = RollbackPlan(RequestedAt(UNDONE), Action.DELTACOMMIT, (victim,))
        changed = {path: encode_rollback_plan(plan, ROOT)}
        yield Case("rollback plan: of others", f"mor: {victim}", "mor", "upsert", changed)


def _committed(files: Mapping[str, bytes]) -> list[str]:
    return sorted(p for p in files if p.startswith("p0/") and DEAD not in p and UNDONE not in p)


def _names(tables: Mapping[str, Target], count: int, chance: Random) -> Iterator[Case]:
    """More files on the timeline, with names of every shape and contents of others."""
    commit = one_path(tables["cow"].files, ".commit")
    for action in ("deltacommit", "replacecommit"):
        path = commit.replace(".commit", f".{action}")
        yield Case("name: two actions", f"cow: {path}, empty", "cow", "read", {path: b""})
    for _ in range(count):
        target = chance.choice(("cow", "mor"))
        files = tables[target].files
        completed = sorted(p for p in files if p.startswith(f"{layout.TIMELINE}/2") and "_" in p)
        model = chance.choice(completed)
        group, name = _odd_name(model.rpartition("/")[2], chance)
        path = layout.timeline_file(name)
        if path in files:
            continue
        data = chance.choice((b"", files[model], chance.randbytes(50)))
        note = f"{target}: {name}, {len(data)} bytes"
        names = (name[:17],) if group == "name: completed twice" else ()
        yield Case(group, note, target, "read", {path: data}, names)


def _odd_name(model: str, chance: Random) -> tuple[str, str]:
    """A name that is like that of a completed file, and what is odd about it."""
    times, _, action = model.partition(".")
    requested_at, _, completed_at = times.partition("_")
    later = str(int(completed_at) + chance.randrange(1, 10**6))
    other = chance.choice(("commit", "deltacommit", "replacecommit", "clean", "savepoint"))
    unknown = chance.choice(("commmit", "upsert", "x" * 200, "commit.done", "requested", "aborted"))
    odd = chance.choice(("", "٢٠٢٧", "-1", "+2", " 2", "2027", "9" * 200, "0", "1_2"))
    return chance.choice(
        (
            ("name: completed twice", f"{requested_at}_{later}.{action}"),
            ("name: two actions", f"{requested_at}_{completed_at}.{other}"),
            ("name: unknown action", f"{later}_{later}1.{unknown}"),
            ("name: unknown action", f"{requested_at}_{completed_at}.{unknown}"),
            ("name: unknown state", f"{requested_at}.{action}.{unknown}"),
            ("name: odd time", f"{odd}_{odd}.{action}"),
            ("name: odd time", f"{odd}.{action}.requested"),
            ("name: old form", f"{requested_at}.{action}"),
        )
    )


def _marker_names(tables: Mapping[str, Target], count: int, chance: Random) -> Iterator[Case]:
    """Markers of the dead write that name what is not its own; what they name must survive."""
    files = tables["mor"].files
    for _ in range(count):
        victim = chance.choice(_committed(files))
        odd = chance.choice(
            (
                "../../x",
                "/etc/passwd",
                ".hoodie/hoodie.properties",
                "",
                "p0",
                "p0/",
                "\xff",
                "%2e%2e/x",
            )
        )
        group, name = chance.choice((("marker: of others", victim), ("marker: odd path", odd)))
        line = f"{name}.marker.{chance.choice(('CREATE', 'MERGE', 'APPEND', 'x'))}"
        path = f"{_MARKERS}/MARKERS{chance.randrange(1, 20)}"
        changed: dict[str, bytes | None] = {path: f"{line}\n".encode("latin-1")}
        if group == "marker: of others" and chance.random() < 0.5:
            changed = {f"{_MARKERS}/{line}": b""}
        yield Case(group, f"mor: {line}", "mor", "upsert", changed)


KIND = Kind(
    groups=(
        "properties",
        "properties: lines",
        "schema in commit",
        "commit",
        "deltacommit",
        "replacecommit",
        "clean",
        "plan",
        "rollback plan",
        "rollback plan: of others",
        "inflight",
        "marker",
        "partition metadata",
        "name: completed twice",
        "name: two actions",
        "name: unknown action",
        "name: unknown state",
        "name: odd time",
        "name: old form",
        "marker: of others",
        "marker: odd path",
    ),
    least=800,
    least_full=10_000,
    targets=targets,
    cases=cases,
)
