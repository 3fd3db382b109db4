"""Clustering plans: which slices are written anew together, and in which order their rows will lie.

A plan is the content of `<requested_at>.clustering.requested`. It holds absolute paths, as Hudi
writes them; here they are values relative to the table, and a path outside of it is `Corrupt`.
Either engine executes the other's plans: what both know stands where Hudi looks for it, what only
we know stands in the plan's extra metadata under keys of our own.

There are plans of ours that Hudi must not execute: those for buckets, where none of its strategies
keeps rows in their file group, and cancellable ones, because it does not look whether a plan was
cancelled. Which strategy a plan names it does not look at either, so such plans name their files
where it finds none, and it fails. Which file groups are planned it sees all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lentic.config.clustering import CLUSTER_SORT, CLUSTER_TARGET_BYTES, Curve
from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format import cancellable
from lentic.format.avro import Fields, SchemaName, decode_container, encode_container
from lentic.format.cancellable import (
    Cancellation,
    decode_cancellation,
    encode_cancellation,
    encode_canceller,
)
from lentic.format.locations import absolute_path, relative_path
from lentic.format.names import Action, parse_base_file, parse_log_file
from lentic.format.plans import edge_record, parse_edge
from lentic.format.removable import REMOVABLE_KEY
from lentic.format.times import RequestedAt

CURVE_KEY = "lentic.clustering.curve"
"""Where the extra map says along which curve rows lie; Hudi has that from its own options."""

_STRATEGY = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
_WITHIN_GROUPS = "lentic.SortWithinFileGroups"
"""What our plans for tables with buckets name instead."""
_CANCELLABLE = "lentic.SortAndSizeUnlessCancelled"
"""What cancellable plans name."""
_OURS = "lentic:/executed-by-lentic-alone"
"""What stands for the table in paths of plans that Hudi must not execute. Hudi leaves the scheme
out, so that the rest says it as well, to whoever reads which file is missing."""
_VERSION = 1
_MIB = 1024 * 1024
_KIND: SchemaName = "HoodieRequestedReplaceMetadata"


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """One file slice to write anew; files relative to the table, logs in merge order."""

    partition: str
    file_id: str
    base_file: str | None
    log_files: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return ((self.base_file,) if self.base_file else ()) + self.log_files


@dataclass(frozen=True, slots=True)
class ClusteringGroup:
    """Slices of one partition whose rows become the rows of `outputs` new files, or about that."""

    slices: tuple[SlicePlan, ...]
    outputs: int = 1
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def partition(self) -> str:
        return self.slices[0].partition


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """The groups to write anew, each by itself, and how: by `sort_by` along `curve`, into files of
    `target_bytes`. None where the plan leaves it to whoever executes it."""

    groups: tuple[ClusteringGroup, ...]
    sort_by: tuple[str, ...] = ()
    curve: Curve | None = None
    target_bytes: int | None = None
    removable: bool = False
    stays: bool = False
    """Each slice is written anew under its own file id; later logs are not its concern."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    params: Mapping[str, str] = field(default_factory=dict)
    """What else the strategy is told."""
    extra: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """Partitions with slices that the planner found and left to the next plan."""
    edge: tuple[RequestedAt, Action] | None = None
    """The plan's own instant, up to which it has seen what changed."""

    def file_groups(self) -> frozenset[tuple[str, str]]:
        """Partition and file id of every file group it writes anew."""
        slices = (part for group in self.groups for part in group.slices)
        return frozenset((part.partition, part.file_id) for part in slices)


@dataclass(frozen=True, slots=True)
class ClusteringClaim:
    """What others need to know of a plan: which file groups it is for, and whether it gives way."""

    groups: frozenset[tuple[str, str]]
    stays: bool
    cancellation: Cancellation


def slice_metrics(log_sizes: tuple[int, ...], bytes_read: int) -> dict[str, float]:
    """The numbers that Hudi keeps of a group; it needs all keys."""
    mib = float(bytes_read // _MIB)
    return {
        "TOTAL_LOG_FILES": float(len(log_sizes)),
        "TOTAL_LOG_FILES_SIZE": float(sum(log_sizes)),
        "TOTAL_IO_READ_MB": mib,
        "TOTAL_IO_WRITE_MB": mib,
        "TOTAL_IO_MB": 2 * mib,
    }


def encode_clustering_plan(plan: ClusteringPlan, root: str) -> bytes:
    """Content of `<requested_at>.clustering.requested`, for the table at `root`."""
    params = dict(plan.params)
    if plan.sort_by:
        params[CLUSTER_SORT.key] = ",".join(plan.sort_by)
    if plan.target_bytes is not None:
        params[CLUSTER_TARGET_BYTES.key] = str(plan.target_bytes)
    extra = dict(plan.extra)
    if plan.curve is not None:
        extra[CURVE_KEY] = plan.curve.value
    if plan.removable:
        extra[REMOVABLE_KEY] = "true"
    extra |= encode_cancellation(plan.cancellation)
    base = _OURS if plan.stays or plan.cancellation.cancellable else root
    strategy = {"strategyClassName": _strategy(plan), "strategyParams": params, "version": _VERSION}
    record = {
        "operationType": "CLUSTER",
        "clusteringPlan": {
            "inputGroups": [_group_record(group, base) for group in plan.groups],
            "strategy": strategy,
            "extraMetadata": extra,
            "version": _VERSION,
            "preserveHoodieMetadata": True,
            "missingSchedulePartitions": list(plan.missing),
            "earliestInstantToRetain": edge_record(plan.edge),
        },
        "extraMetadata": {},
        "version": _VERSION,
    }
    return encode_container(_KIND, record)


def _strategy(plan: ClusteringPlan) -> str:
    if plan.stays:
        return _WITHIN_GROUPS
    return _CANCELLABLE if plan.cancellation.cancellable else _STRATEGY


def _group_record(group: ClusteringGroup, root: str) -> dict[str, object]:
    return {
        "slices": [_slice_record(part, root) for part in group.slices],
        "metrics": dict(group.metrics),
        "numOutputFileGroups": group.outputs,
        "extraMetadata": None,
        "version": _VERSION,
    }


def _slice_record(part: SlicePlan, root: str) -> dict[str, object]:
    return {
        "dataFilePath": absolute_path(part.base_file, root) if part.base_file else "",
        "deltaFilePaths": [absolute_path(path, root) for path in part.log_files],
        "fileId": part.file_id,
        "partitionPath": part.partition,
        "bootstrapFilePath": "",
        "version": _VERSION,
    }


def decode_clustering_plan(data: bytes, root: str, where: str) -> ClusteringPlan:
    """The plan in `<requested_at>.clustering.requested`, for the table at `root`."""
    plan = _decode_plan(data, where)
    if plan.number("version") > _VERSION:
        raise UnsupportedFormat(
            f"The clustering plan has version {plan.number('version')}; this release reads 1.",
            where=where,
            next_step="run or cancel this clustering with Apache Hudi",
        )
    params = plan.record("strategy").text_map("strategyParams")
    extra = plan.text_map("extraMetadata")
    sort_by = params.pop(CLUSTER_SORT.key, "")
    target = params.pop(CLUSTER_TARGET_BYTES.key, None)
    curve = extra.pop(CURVE_KEY, None)
    cancellation = decode_cancellation(extra)
    for key in cancellable.KEYS:
        extra.pop(key, None)
    groups = tuple(_parse_group(group, root) for group in plan.records("inputGroups"))
    _ensure_distinct(groups, where)
    try:
        return ClusteringPlan(
            groups=groups,
            sort_by=CLUSTER_SORT.parse(sort_by),
            curve=Curve(curve) if curve else None,
            target_bytes=CLUSTER_TARGET_BYTES.parse(target) if target else None,
            removable=extra.pop(REMOVABLE_KEY, "") == "true",
            stays=_stays(plan),
            cancellation=cancellation,
            params=params,
            extra=extra,
            missing=plan.texts("missingSchedulePartitions"),
            edge=parse_edge(plan),
        )
    except ValueError as error:
        raise Corrupt(f"The clustering plan makes no sense: {error}.", where=where) from error


def decode_clustering_claim(data: bytes, where: str) -> ClusteringClaim:
    """The claim of a plan; readable wherever the table has been moved to since."""
    plan = _decode_plan(data, where)
    slices = (part for group in plan.records("inputGroups") for part in group.records("slices"))
    return ClusteringClaim(
        groups=frozenset((part.text("partitionPath"), part.text("fileId")) for part in slices),
        stays=_stays(plan),
        cancellation=decode_cancellation(plan.text_map("extraMetadata")),
    )


def note_canceller(data: bytes, where: str, by: str, why: str) -> bytes:
    """The content of a plan that ends as aborted: as it was, with who cancelled it and why. What
    does not read, or says what this release does not know, stays as it is: it has to end."""
    try:
        plan = dict(_decode_plan(data, where).values)
        plan["extraMetadata"] = {**(plan.get("extraMetadata") or {}), **encode_canceller(by, why)}
        record = decode_container(data, where, (_KIND,)) or {}
        return encode_container(_KIND, {**record, "clusteringPlan": plan})
    except (Corrupt, ValueError):
        return data


def _stays(plan: Fields) -> bool:
    return plan.record("strategy").text("strategyClassName") == _WITHIN_GROUPS


def _decode_plan(data: bytes, where: str) -> Fields:
    record = Fields(decode_container(data, where, (_KIND,)) or {}, where)
    if not record.values.get("clusteringPlan"):
        raise Corrupt("A clustering was requested without a plan.", where=where)
    return record.record("clusteringPlan")


def _ensure_distinct(groups: tuple[ClusteringGroup, ...], where: str) -> None:
    """No file group twice: its rows would be there twice."""
    slices = [part for group in groups for part in group.slices]
    if len({(part.partition, part.file_id) for part in slices}) < len(slices):
        raise Corrupt("The clustering plan names a file group twice.", where=where)


def _parse_group(found: Fields, root: str) -> ClusteringGroup:
    slices = tuple(_parse_slice(part, root) for part in found.records("slices"))
    if len({part.partition for part in slices}) != 1:
        raise Corrupt("A clustering group is not of one partition.", where=found.where)
    metrics = {k: v for k, v in found.record("metrics").values.items() if isinstance(v, float)}
    return ClusteringGroup(slices, found.number("numOutputFileGroups"), metrics)


def _parse_slice(found: Fields, root: str) -> SlicePlan:
    if found.text("bootstrapFilePath"):
        raise UnsupportedFormat("The plan clusters bootstrapped files.", where=found.where)
    base = found.text("dataFilePath")
    part = SlicePlan(
        partition=found.text("partitionPath"),
        file_id=found.text("fileId"),
        base_file=_inside(base, root, found.where) if base else None,
        log_files=tuple(_inside(p, root, found.where) for p in found.texts("deltaFilePaths")),
    )
    if not part.paths:
        raise Corrupt(f"The plan names no file of {part.file_id!r}.", where=found.where)
    for path in part.paths:
        directory, _, name = path.rpartition("/")
        parsed = parse_base_file(name) or parse_log_file(name)
        if directory != part.partition or parsed is None or parsed.file_id != part.file_id:
            raise Corrupt(
                f"The plan names {path!r}, no file of group {part.file_id!r} in partition "
                f"{part.partition!r}.",
                where=found.where,
            )
    return part


def _inside(path: str, root: str, where: str) -> str:
    inside = relative_path(path, _OURS if path.startswith(_OURS) else root)
    if inside is None:
        raise Corrupt(
            f"The plan names {path!r}, which is no data file of the table at {root!r}.",
            where=where,
            safe="nothing was written",
            next_step="if the table was moved, move it back until its clusterings are finished",
        )
    return inside
