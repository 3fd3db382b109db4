"""How far Spark is with a job, asked while it runs.

Jobs are told apart by a tag of ours, which stands beside whatever job group or tags the user has
set. Spark gets to know the tasks of a job stage by stage, so their number grows while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Event, Thread

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lentic.progress import Watch

_PERIOD_S = 0.25
_numbers = count(1)


@contextmanager
def following(spark: SparkSession, watch: Watch) -> Iterator[None]:
    """Tell `watch` how many tasks have ended of the jobs that the block starts.

    Without anybody looking there is no thread and no tag; on Spark Connect, which has no context on
    this side, neither, and the watch learns only that the block has ended.
    """
    context = _context(spark) if watch.is_shown else None
    if context is None:
        yield
        return
    tag, over = f"lentic-{next(_numbers)}", Event()
    asking = Thread(target=_ask, args=(context, tag, watch, over), name=tag, daemon=True)
    with suppress(Exception):
        context.addJobTag(tag)
        asking.start()
    try:
        yield
    finally:
        over.set()
        with suppress(Exception):
            context.removeJobTag(tag)
        if asking.ident is not None:
            asking.join()


@contextmanager
def tagged(spark: SparkSession) -> Iterator[Callable[[], None]]:
    """A block whose jobs end when what it is given is called, from whatever thread."""
    tag, context = f"lentic-{next(_numbers)}", _context(spark)
    add, remove = spark.addTag, spark.removeTag
    stop: Callable[[str], object] = spark.interruptTag
    if context is not None:  # the session's own tags reach SQL alone, and not all of it
        add, remove, stop = context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
    add(tag)
    try:
        yield lambda: _call(stop, tag)
    finally:
        remove(tag)


def _call(stop: Callable[[str], object], tag: str) -> None:
    stop(tag)


def _context(spark: SparkSession) -> SparkContext | None:
    try:
        return spark.sparkContext
    except PySparkException:
        return None


def _ask(context: SparkContext, tag: str, watch: Watch, over: Event) -> None:
    with suppress(Exception):
        while not over.wait(_PERIOD_S):
            watch.reach(*_count_tasks(context, tag))


def _count_tasks(context: SparkContext, tag: str) -> tuple[int, int]:
    """How many tasks have ended, of all tasks of stages that have begun.

    A stage that has not begun may never do so, because an earlier job did its work.
    """
    tracker = context.statusTracker()
    # PySpark hands on everything but this question.
    jobs = [
        tracker.getJobInfo(job) for job in context._jsc.sc().statusTracker().getJobIdsForTag(tag)
    ]
    stages = [
        tracker.getStageInfo(stage) for stage in {s for job in jobs if job for s in job.stageIds}
    ]
    begun = [s for s in stages if s and s.numActiveTasks + s.numCompletedTasks + s.numFailedTasks]
    return sum(s.numCompletedTasks for s in begun), sum(s.numTasks for s in begun)
