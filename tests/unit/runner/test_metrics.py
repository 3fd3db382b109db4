"""What a runner counts and measures, by the names that people chart."""

from __future__ import annotations

import pyarrow as pa

from lentic.format.plan_window import Look, PlanWindow
from lentic.runner.decide import Service
from lentic.runner.events import Event, Result, Work
from lentic.runner.loop import Orders
from lentic.runner.metrics import BACKOFF, STRAYS, TABLES, Metrics, record_event, record_look
from tests.unit.builders import completed, requested
from tests.unit.runner.lake import SCHEMA, Lake


def test_counters_count_and_gauges_hold() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.add(STRAYS, 3, table="t")
        metrics.set(TABLES, 7)
    assert 'lentic_strays_swept_total{table="t"} 6\n' in metrics.text()
    assert "lentic_tables 7\n" in metrics.text()


def test_what_is_so_now_takes_the_place_of_what_was() -> None:
    metrics = Metrics()
    metrics.replace(BACKOFF, {(("action", "clean"),): 5}, table="t")
    metrics.replace(BACKOFF, {(("action", "archive"),): 6}, table="t")
    metrics.replace(BACKOFF, {(("action", "clean"),): 7}, table="u")
    assert metrics.text().splitlines()[2:] == [
        'lentic_backoff_seconds{table="t",action="archive"} 6',
        'lentic_backoff_seconds{table="u",action="clean"} 7',
    ]


def test_a_table_that_is_gone_takes_its_numbers_along() -> None:
    metrics = Metrics()
    metrics.add(STRAYS, table="t")
    metrics.add(STRAYS, table="u")
    metrics.forget("t")
    assert 'table="t"' not in metrics.text()
    assert 'table="u"' in metrics.text()


def test_an_action_that_was_done_is_measured_by_hudis_names() -> None:
    metrics = Metrics()
    work = Work(rows=10, files=3, bytes=99, first_files=1, partitions=2)
    event = Event(0, "w", "t", "log_compaction", Result.DONE, seconds=1.5, work=work)
    record_event(metrics, event)
    text = metrics.text()
    for name, value in {
        "duration_ms": 1500,
        "total_records_written": 10,
        "total_bytes_written": 99,
        "total_files_insert": 1,
        "total_files_update": 2,
        "total_partitions_written": 2,
    }.items():
        assert f'hoodie_logcompaction_{name}{{table="t"}} {value}\n' in text
    labels = '{table="t",action="log_compaction",outcome="done"}'
    assert f"lentic_actions_total{labels} 1\n" in text


def test_what_others_did_or_what_failed_is_counted_and_not_measured() -> None:
    metrics = Metrics()
    for result in (Result.ALREADY, Result.BUSY, Result.FAILED, Result.NOTHING):
        record_event(metrics, Event(0, "w", "t", "clean", result))
    assert "hoodie_" not in metrics.text()
    assert metrics.text().count("lentic_actions_total{") == 4


def test_cleans_and_archives_are_measured_by_what_they_removed() -> None:
    metrics = Metrics()
    work = Work(deleted=4, strays=2)
    record_event(metrics, Event(0, "w", "t", "clean", Result.DONE, work=work))
    record_event(metrics, Event(0, "w", "t", "archive", Result.DONE, work=Work(instants=9)))
    text = metrics.text()
    assert 'hoodie_clean_num_files_deleted{table="t"} 4\n' in text
    assert 'lentic_strays_swept_total{table="t"} 2\n' in text
    assert 'hoodie_archive_num_instants_archived{table="t"} 9\n' in text


def test_how_many_partitions_there_are_is_kept_from_the_last_full_look() -> None:
    metrics, edge = Metrics(), completed(1)
    full = PlanWindow(requested(1), Look.FULL, edge, edge, considered=100, total=100)
    record_look(metrics, "t", "clean", full)
    part = PlanWindow(requested(2), Look.INCREMENTAL, edge, edge, considered=3)
    record_look(metrics, "t", "clean", part)
    assert 'lentic_partitions_considered{table="t",action="clean"} 3\n' in metrics.text()
    assert 'lentic_partitions_total{table="t",action="clean"} 100\n' in metrics.text()


def test_a_runner_measures_what_its_planners_looked_at() -> None:
    lake = Lake()
    lake.add("one", commits=3)
    lake.runner(Orders(services=frozenset({Service.COMPACTION}))).run_cycle()
    assert (
        'lentic_partitions_considered{table="one",action="compaction"} 1\n' in lake.metrics.text()
    )
    assert 'lentic_partitions_total{table="one",action="compaction"} 1\n' in lake.metrics.text()


def test_the_newest_completed_instants_are_told_exactly() -> None:
    """A float would round the seventeen digits of an instant."""
    lake = Lake()
    table = lake.add("one", commits=3)
    done = table.compact()
    assert done is not None
    lake.runner().run_cycle()
    at = done.instant.requested_at
    assert (
        f'hoodie_latest_completed_compaction_instant{{table="one"}} {at}\n' in lake.metrics.text()
    )


def test_the_newest_clustering_is_told_of_a_table_that_the_runner_does_not_cluster() -> None:
    lake = Lake()
    table = lake.add("one", commits=2, table_type="COPY_ON_WRITE", buckets=None)
    at = table.schedule("clustering")
    assert at is not None and table.execute(at)
    table.insert_overwrite(pa.table([["z"], [9]], schema=SCHEMA))
    runner = lake.runner()
    lake.calls("one")
    runner.run_cycle()
    name = "hoodie_latest_completed_clustering_instant"
    assert f'{name}{{table="one"}} {at}\n' in lake.metrics.text()
    assert not [call for call in lake.calls("one") if call.startswith("info .hoodie/timeline")]
