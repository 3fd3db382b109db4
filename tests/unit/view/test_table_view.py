"""The view: a file counts if and only if the metadata of a completed write names it (R5)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.format.commit_metadata import CommitMetadata
from lentic.format.times import RequestedAt
from lentic.storage.base import FileInfo
from lentic.view.files import FileGroupId
from lentic.view.slicing import BEGINNING
from lentic.view.table_view import (
    Committed,
    TableFiles,
    build_view,
    committed_write,
    gone_paths,
    without_gone,
)
from tests.rfc.claims import says
from tests.unit.builders import base_file, completed, log_file, metadata, requested, time


def _info(path: str, size: int = 7) -> FileInfo:
    return FileInfo(path, size, 0)


def _committed(*writes: tuple[int, int, CommitMetadata]) -> dict[RequestedAt, Committed]:
    return {requested(r): committed_write(completed(c), found) for r, c, found in writes}


def test_files_that_completed_writes_name_are_visible_with_listed_size_and_time() -> None:
    base, log = base_file(1, 2), log_file(3, 4)
    committed = _committed((1, 2, metadata(base.path)), (3, 4, metadata(log.path)))
    (group,) = build_view([_info(base.path, 70), _info(log.path, 8)], committed)
    assert group.id == FileGroupId("p", "fg")
    (part,) = group.slices
    assert part.base is not None
    assert (part.base.path, part.base.size, part.base.completed_at) == (base.path, 70, completed(2))
    assert [(x.path, x.size, x.completed_at) for x in part.logs] == [(log.path, 8, completed(4))]


@says("R5", "P14")
def test_a_file_that_its_completed_instant_does_not_name_is_invisible() -> None:
    """R5: what a repeated task left behind lies beside the real file and is not read."""
    real, stray = log_file(1, 2), log_file(1, 2, token="0-0-9")
    stray_base = base_file(1, 2, file_id="other")
    files = [_info(f.path) for f in (real, stray, stray_base)]
    (group,) = build_view(files, _committed((1, 2, metadata(real.path))))
    assert group.latest.paths == (real.path,)


def test_a_file_named_elsewhere_than_where_it_lies_is_invisible() -> None:
    named, lies = base_file(1, 2, partition="p"), base_file(1, 2, partition="q")
    assert build_view([_info(lies.path)], _committed((1, 2, metadata(named.path)))) == ()


def test_files_of_pending_instants_are_invisible() -> None:
    """N4: the half-written base of a pending compaction is no barrier and hides no log."""
    base, log, pending = base_file(1, 2), log_file(3, 4), base_file(5, 6)
    committed = _committed((1, 2, metadata(base.path)), (3, 4, metadata(log.path)))
    (group,) = build_view([_info(f.path) for f in (base, log, pending)], committed)
    assert [part.paths for part in group.slices] == [(base.path, log.path)]


@says("P6")
def test_a_pending_first_log_does_not_hide_its_group() -> None:
    """P6, N5."""
    pending, done = log_file(1, 9), log_file(2, 3)
    (group,) = build_view(
        [_info(pending.path), _info(done.path)], _committed((2, 3, metadata(done.path)))
    )
    assert group.latest.paths == (done.path,)
    assert group.latest.barrier == BEGINNING


def test_groups_that_a_completed_replacement_names_are_hidden() -> None:
    old, other = base_file(1, 2), base_file(1, 2, file_id="other")
    elsewhere = base_file(1, 2, partition="q")
    new = base_file(3, 4, file_id="new")
    committed = _committed(
        (1, 2, metadata(old.path, other.path, elsewhere.path)),
        (3, 4, metadata(new.path, replaced={"p": ("fg",)})),
    )
    groups = build_view([_info(f.path) for f in (old, other, elsewhere, new)], committed)
    assert [str(group.id) for group in groups] == ["p/new", "p/other", "q/fg"]


def test_change_logs_are_no_data() -> None:
    base = base_file(1, 2)
    cdc = f"p/.fg_{time(1)}.log.1_0-0-0.cdc"
    written = metadata(base.path)
    written = CommitMetadata(
        operation="UPSERT", compacted=False, stats=written.stats, cdc_files=(cdc,)
    )
    (group,) = build_view([_info(base.path), _info(cdc)], _committed((1, 2, written)))
    assert group.latest.paths == (base.path,)


def test_other_files_in_a_partition_are_passed_over() -> None:
    base = base_file(1, 2)
    files = [
        _info(base.path),
        _info("p/.hoodie_partition_metadata"),
        _info("p/notes.txt"),
        _info(f"p/.{base.path[2:]}.crc"),
    ]
    (group,) = build_view(files, _committed((1, 2, metadata(base.path))))
    assert group.latest.paths == (base.path,)


def test_groups_come_by_partition_and_file_id_and_root_files_have_no_partition() -> None:
    paths = [
        base_file(1, 2, partition=partition, file_id=file_id).path
        for partition, file_id in (("b", "x"), ("a/c", "z"), ("a/c", "y"), ("", "r"))
    ]
    groups = build_view(map(_info, paths), _committed((1, 2, metadata(*paths))))
    assert [(g.id.partition, g.id.file_id) for g in groups] == [
        ("", "r"),
        ("a/c", "y"),
        ("a/c", "z"),
        ("b", "x"),
    ]


def test_a_log_named_only_among_the_log_files_of_its_stat_is_visible() -> None:
    """Another engine may list several logs in one stat."""
    first, second = log_file(1, 2), log_file(1, 2, version=2)
    names = (first.path.rpartition("/")[2], second.path.rpartition("/")[2])
    one = metadata(first.path).stats[0]
    written = CommitMetadata(
        operation="UPSERT",
        compacted=False,
        stats=(type(one)(**{**one.to_json(), "log_files": names}),),
    )
    (group,) = build_view(map(_info, (first.path, second.path)), _committed((1, 2, written)))
    assert group.latest.paths == (first.path, second.path)


def test_files_of_the_latest_slice_that_are_named_and_not_listed_are_gone() -> None:
    base, log = base_file(1, 2), log_file(3, 4)
    writes = _committed((1, 2, metadata(base.path)), (3, 4, metadata(log.path)))
    assert gone_paths(TableFiles((_info(base.path),), writes).groups()) == (log.path,)
    assert gone_paths(TableFiles((_info(base.path), _info(log.path)), writes).groups()) == ()


def test_an_older_slice_may_be_cleaned_and_is_left_out() -> None:
    old, new = base_file(1, 2), base_file(3, 4)
    writes = _committed((1, 2, metadata(old.path)), (3, 4, metadata(new.path)))
    (group,) = TableFiles((_info(new.path),), writes).groups()
    assert gone_paths([group]) == ()
    assert [part.paths for part in without_gone(group).slices] == [(new.path,)]


@says("rfc66.travel.prune")
def test_writes_that_completed_after_the_moment_do_not_exist_for_it() -> None:
    base, log, later = base_file(1, 2), log_file(3, 6), base_file(4, 5)
    writes = _committed(
        (1, 2, metadata(base.path)), (3, 6, metadata(log.path)), (4, 5, metadata(later.path))
    )
    files = TableFiles(tuple(_info(f.path) for f in (base, log, later)), writes)
    seen = [files.groups(completed(at))[0].latest.paths for at in (2, 4, 5, 6)]
    assert seen == [(base.path,), (base.path,), (later.path,), (later.path, log.path)]
    assert files.groups(completed(1)) == ()


FILES = st.lists(
    st.tuples(
        st.sampled_from(["base", "log"]),
        st.integers(1, 9),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["p", "q"]),
        st.booleans(),
    ),
    unique_by=lambda file: file[:4],
    max_size=14,
)


@says("R5")
@given(FILES, st.sets(st.integers(1, 9)), st.sets(st.sampled_from(["a", "b"])))
@settings(max_examples=300, deadline=None)
def test_visible_is_exactly_what_is_listed_named_completed_and_not_replaced(
    files: list[tuple[str, int, str, str, bool]], done: set[int], replaced: set[str]
) -> None:
    made = {
        (kind, at, group, partition): (base_file if kind == "base" else log_file)(
            at, at + 20, file_id=group, partition=partition
        ).path
        for kind, at, group, partition, _ in files
    }
    named: dict[int, list[str]] = {number: [] for number in done}
    expected = set()
    for kind, at, group, partition, is_named in files:
        if is_named and at in done:
            named[at].append(made[kind, at, group, partition])
            if group not in replaced or partition != "p":
                expected.add(made[kind, at, group, partition])
    committed = _committed(*((at, at + 20, metadata(*paths)) for at, paths in named.items()))
    if replaced:
        committed[requested(99)] = committed_write(
            completed(100), metadata(replaced={"p": tuple(sorted(replaced))})
        )
    groups = build_view(map(_info, made.values()), committed)
    visible = [path for group in groups for part in group.slices for path in part.paths]
    assert sorted(visible) == sorted(expected)
