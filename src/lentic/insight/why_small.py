"""Why a small file stays small. Pure.

Two things make a small file larger: writes, which put new keys into it before they make new files,
and clustering, which writes several anew as one. For each the first thing is told that stands in
its way. The planners themselves are asked, so that what is said is what they do.
"""

from __future__ import annotations

from lentic.config.clustering import PartitionFilter
from lentic.format.cancellable import group_key
from lentic.insight.answers import Reason
from lentic.insight.facts import Facts
from lentic.services.clustering_plan import (
    ClusteringQuestion,
    choose_partitions,
    is_clustering_due,
    plan_clustering,
)
from lentic.txn.conflicts import Group
from lentic.view.files import FileSlice


def is_small(facts: Facts, part: FileSlice) -> bool:
    """Whether the slice has a base file below the limit that writes go by."""
    return part.base is not None and 0 <= part.base.size < _limit(facts)


def next_clustered(facts: Facts) -> frozenset[Group]:
    """The file groups that a clustering would take on now."""
    return plan_clustering(
        facts.groups.values(), facts.services.clustering, _question(facts)
    ).file_groups()


def why_small(
    facts: Facts, part: FileSlice, clustered: frozenset[Group] | None = None
) -> tuple[Reason, ...]:
    """Why the base file of a latest slice does not grow; one reason if it is not small.

    `clustered` is what `next_clustered` says, for whoever asks about many files.
    """
    if part.base is None:
        return ()
    if not is_small(facts, part):
        return (
            Reason(
                "not-small",
                f"its {part.base.size} bytes are not below hoodie.parquet.small.file.limit="
                f"{_limit(facts)}, so that nobody tries to make it larger",
            ),
        )
    if facts.config.buckets is not None:
        return (
            Reason(
                "small-bucketed",
                f"the table has {facts.config.buckets} buckets: the hash of a key says which file "
                "a row lies in, so that rows may not move to another; it grows with the table",
            ),
        )
    if plan := facts.planned.get(_group(part)):
        state = "cancelled, not yet aborted" if plan.requested_at in facts.cancelled else "pending"
        says = f"{plan} is {state} for its file group: new keys and other plans leave it be"
        return (Reason("small-planned", says),)
    taken = next_clustered(facts) if clustered is None else clustered
    said = (_why_not_filled(facts, part), _why_not_clustered(facts, part, taken))
    if cancels := facts.cancels.get(group_key(*_group(part))):
        # The counts do not say who asked: a write that came first, a clean, or an operator.
        says = f"the last {cancels} clustering(s) for it were cancelled"
        return (*said, Reason("small-cancelled", says))
    return said


def _limit(facts: Facts) -> int:
    # Where writes are told never to fill files up, a file is still small for whoever reads it.
    options = facts.write_options
    return options.small_file_size or min(facts.services.clustering.small_bytes, options.file_size)


def _group(part: FileSlice) -> Group:
    return part.group.partition, part.group.file_id


def _why_not_filled(facts: Facts, part: FileSlice) -> Reason:
    if not facts.write_options.small_file_size:
        says = "hoodie.parquet.small.file.limit=0: writes put no new keys into files that are there"
        return Reason("small-limit-off", says)
    if part.logs:
        return Reason(
            "small-has-logs",
            f"it has {len(part.logs)} log(s) on top, and new keys go to base files without logs: "
            "a compaction comes first",
        )
    where = f"partition {part.group.partition}" if part.group.partition else "the table"
    return Reason(
        "small-waits",
        f"the next insert or upsert with new keys in {where} fills it; bulk_insert never does",
    )


def _question(facts: Facts) -> ClusteringQuestion:
    return ClusteringQuestion(
        at=facts.now,
        sort_by=facts.services.clustering.sort_by,
        is_bucketed=facts.config.buckets is not None,
        busy=frozenset(facts.planned),
    )


def _why_not_clustered(facts: Facts, part: FileSlice, taken: frozenset[Group]) -> Reason:
    options, asked = facts.services.clustering, _question(facts)
    partition = part.group.partition
    is_guess = options.filter is PartitionFilter.DAY_ROLLING and facts.files.partitions is not None
    known = facts.partitions | {group.partition for group in facts.groups}
    if is_guess or partition not in choose_partitions(known, options, asked):
        return Reason(
            "small-partition-filter",
            f"clustering leaves partition {partition!r} out: "
            f"hoodie.clustering.plan.partition.filter.mode={options.filter} and what goes with it",
        )
    if part.size >= options.small_bytes:
        return Reason(
            "small-above-clustering",
            f"its slice has {part.size} bytes, not below "
            f"hoodie.clustering.plan.strategy.small.file.limit={options.small_bytes}",
        )
    others = [
        group
        for group in facts.groups.values()
        if group.id.partition == partition
        and group.id != part.group
        and group.latest.size < options.small_bytes
        and _group(group.latest) not in asked.busy
    ]
    if not others:
        says = "no other file of its partition is small and free: there is nothing to merge it with"
        return Reason("small-alone", says)
    if _group(part) not in taken:
        return Reason(
            "small-plan-limit",
            f"one clustering plan takes {options.groups} group(s) at most "
            "(hoodie.clustering.plan.strategy.max.num.groups): this one comes later",
        )
    if not (options.inline or options.schedule_inline):
        return Reason(
            "small-no-clustering",
            "no clustering is scheduled: hoodie.clustering.inline and "
            "hoodie.clustering.schedule.inline are off for this caller",
        )
    if not is_clustering_due(facts.timeline, options, facts.last_clustering):
        return Reason(
            "small-clustering-not-due",
            f"the next clustering is due {options.trigger_commits} commits after the last "
            "(hoodie.clustering.inline.max.commits)",
        )
    return Reason("small-next-clustering", "the next clustering takes it on, which is due")
