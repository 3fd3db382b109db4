"""Damaged timeline files, plans, properties and markers: content that lies, and names that do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from lentic.format import layout
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
    open_table(storage).upsert(narrow_rows(500, 501, 9))
    return ordered(open_table(storage).read())


def _execute(storage: Storage) -> object:
    """Carry out the pending compaction and read everything."""
    plan = next(i for i in open_table(storage).timeline() if i.action is Action.COMPACTION)
    open_table(storage).execute(plan.requested_at)
    return ordered(open_table(storage).read())


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
            count = (300 if full else 22) // len(paths)
            for one in paths:
                yield from _contents(what, tables, target, one, ask, count, chance)
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
        name = path.rpartition("/")[2]
        yield Case(f"{what}: {content.way}", note, target, ask, {path: content.data}, name)


def _names(tables: Mapping[str, Target], count: int, chance: Random) -> Iterator[Case]:
    """More files on the timeline, with names of every shape and contents of others."""
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
        requested_at = name[:17] if group == "name: completed twice" else ""
        yield Case(group, note, target, "read", {path: data}, requested_at)


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
    own = sorted(p for p in files if p.startswith("p0/") and DEAD not in p and UNDONE not in p)
    for _ in range(count):
        victim = chance.choice(own)
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


KIND = Kind(targets, cases)
