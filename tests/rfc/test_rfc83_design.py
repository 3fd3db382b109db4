"""RFC-83, incremental table services: what the design says, statement by statement."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from lentic.format.avro import decode_container
from lentic.format.clean import decode_clean_metadata
from lentic.format.layout import timeline_file
from lentic.format.names import Action
from lentic.format.plan_window import EDGE_KEY, WINDOW_KEY, Look, decode_window
from lentic.format.times import CompletedAt
from lentic.services import clean_draft, clustering_draft, compaction, log_compaction, schedule
from lentic.timeline.reader import load_commit_metadata, load_compaction_plan
from tests.rfc.claims import says
from tests.rfc.planning_scenes import EVERYTHING, REWRITE, SERVICE, Scene, served

OFF = {
    "hoodie__table__services__incremental__enabled": False,
    "hoodie__clean__incremental__enabled": False,
}


# --- abstract -----------------------------------------------------------------------------------


@SERVICE
@says("rfc83.abstract.scan")
def test_every_plan_scans_the_table_only_if_it_is_told_to(service: str) -> None:
    """RFC-83, Abstract: planning scans all partitions; here that is what one has to ask for."""
    scene = served(service, **OFF)
    scene.change("d2")
    assert scene.looked() == EVERYTHING and scene.look.kind is Look.FULL
    asked = served(service)
    asked.change("d2")
    assert asked.looked() <= {"d0", "d2"} and asked.look.kind is Look.INCREMENTAL


@SERVICE
@says("rfc83.abstract.cost")
def test_old_partitions_do_not_make_a_plan_dearer(service: str) -> None:
    """RFC-83, Abstract: with many old partitions scanning them all is what makes planning slow."""
    calls = []
    for count in (5, 60):
        scene = Scene(service, hoodie__clustering__plan__strategy__max__num__groups=100)
        days = [f"old{number}" for number in range(count)]
        scene.change("d1", "d2", *days)
        scene.write("d0")
        scene.run()
        scene.change("d2")
        at, places, number = scene.watched()
        assert at is not None and places <= {"d0", "d2"}
        calls.append(number)
    assert calls[0] == calls[1]


@SERVICE
@says("rfc83.abstract.services")
def test_each_service_goes_by_what_changed(service: str) -> None:
    """RFC-83, Abstract: what cleaning can, to go by incremental partitions, every service can."""
    scene = served(service)
    scene.change("d3")
    at = scene.planned()
    assert scene.window_of(at).kind is Look.INCREMENTAL
    assert "d3" in scene.partitions_of(at) <= {"d0", "d3"}


# --- background ---------------------------------------------------------------------------------


@says("rfc83.clean.plan")
def test_a_clean_plan_names_the_earliest_instant_to_retain() -> None:
    """RFC-83, Background: `earliestInstantToRetain` stands in the plan of a clean."""
    scene = served("clean")
    scene.change("d1")
    at = scene.planned()
    record = decode_container(scene.storage.read(scene.plan_file(at)), "x")
    last = scene.timeline.writes()[-1]
    assert record is not None and record["earliestInstantToRetain"] == {
        "timestamp": last.requested_at,
        "action": str(last.action),
        "state": "COMPLETED",
    }


@says("rfc83.clean.metadata", "rfc83.executor.clean")
def test_a_finished_clean_names_the_earliest_commit_to_retain() -> None:
    """RFC-83, Background, and Work Flow, executor step 3: a clean keeps it in its own metadata."""
    scene = served("clean")
    scene.change("d1")
    last = scene.timeline.writes()[-1]
    done = scene.completed(scene.run())
    path = timeline_file(done.file_name)
    assert decode_clean_metadata(scene.storage.read(path), path).retained == last.requested_at


@pytest.mark.parametrize("retained", [1, 2, 3])
@says("rfc83.clean.options")
def test_which_commit_a_clean_retains_follows_from_its_options(retained: int) -> None:
    """RFC-83, Background, note: newInstantToRetain follows from `hoodie.clean.commits.retained`."""
    scene = Scene("clean", hoodie__clean__commits__retained=retained)
    scene.change("d1", "d2")
    scene.change("d1", "d2")
    done = scene.completed(scene.run())
    path = timeline_file(done.file_name)
    found = decode_clean_metadata(scene.storage.read(path), path).retained
    assert found == scene.timeline.writes()[-retained].requested_at


@says("rfc83.clean.partitions")
def test_a_clean_looks_where_something_completed_between_both_edges() -> None:
    """RFC-83, Background: how incremental partitions are found during cleaning."""
    scene = served("clean")
    before = scene.timeline.writes()[-1]
    scene.change("d3")
    scene.write("d4")
    last = scene.timeline.writes()[-1]
    places = scene.looked()
    assert places == {"d0", "d3"}, "d0 came with the commit retained last; d4 comes with this one"
    assert (scene.look.lo, scene.look.hi) == (before.completed_at, last.completed_at)


# --- changes to the metadata --------------------------------------------------------------------


def field_of(schema: Any, name: str) -> Any:
    return next(field for field in schema["fields"] if field["name"] == name)


def schema_of(name: str) -> Any:
    text = (resources.files("lentic.format") / "schemas" / f"{name}.avsc").read_text("utf-8")
    return json.loads(text)


@says("rfc83.schema.plan")
def test_plans_of_all_kinds_have_the_same_field_for_the_instant() -> None:
    """RFC-83, Changes in TableService Metadata Schema: the new column is that of the clean plan."""
    clean = field_of(schema_of("HoodieCleanerPlan"), "earliestInstantToRetain")
    replaced = schema_of("HoodieRequestedReplaceMetadata")
    clustering = field_of(replaced, "clusteringPlan")["type"][1]
    assert clean["default"] is None and clean["type"][0] == "null"
    assert [f["name"] for f in clean["type"][1]["fields"]] == ["timestamp", "action", "state"]
    assert field_of(schema_of("HoodieCompactionPlan"), "earliestInstantToRetain") == clean
    assert field_of(clustering, "earliestInstantToRetain") == clean


@REWRITE
@says("rfc83.schema.commit", "rfc83.executor.commit", "rfc83.executor.3")
def test_the_commit_of_a_service_names_the_instant_in_its_extra_metadata(service: str) -> None:
    """RFC-83, Changes in TableService Metadata Schema: `earliestCommitToRetain` in the extra map of
    the commit metadata; Work Flow, executor step 3."""
    scene = Scene(service)
    scene.change("d1")
    at = scene.run()
    extra = load_commit_metadata(scene.storage, scene.completed(at)).extra
    assert extra[EDGE_KEY] == at and EDGE_KEY == "earliestCommitToRetain"
    assert decode_window(extra[WINDOW_KEY], "x") == scene.window_of(at)


# --- abstraction --------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", [compaction, log_compaction, clustering_draft, clean_draft])
@says("rfc83.one.interface")
def test_one_piece_tells_every_planner_where_to_look_and_keeps_what_it_says(planner: Any) -> None:
    """RFC-83, Abstraction: a unified interface controls how services plan and what they commit."""
    assert planner.look is schedule.look
    assert planner.window_extra is schedule.window_extra
    assert not hasattr(planner, "load_table_view") and not hasattr(planner, "load_table_files")


@SERVICE
@says("rfc83.one.retain")
def test_the_instant_that_a_plan_records_is_where_the_next_begins(service: str) -> None:
    """RFC-83, Abstraction, getEarliestCommitToRetain: it is recorded as the new one."""
    scene = served(service)
    scene.change("d1")
    first = scene.window_of(scene.run())
    scene.change("d2")
    second = scene.window_of(scene.run())
    assert second.lo == first.hi < second.hi


@SERVICE
@says("rfc83.one.incremental", "rfc83.one.choice")
def test_between_two_instants_it_gives_the_partitions_of_what_completed(service: str) -> None:
    """RFC-83, Abstraction, getIncrementalPartitionPaths: the partitions between both instants."""
    scene = served(service)
    scene.change("d1", "d4")
    assert {"d1", "d4"} <= scene.looked() <= {"d0", "d1", "d4"}


@SERVICE
@says("rfc83.one.all")
def test_without_an_earlier_instant_it_gives_all_partitions(service: str) -> None:
    """RFC-83, Abstraction, getAllPartitionPaths: all partitions of the table."""
    scene = Scene(service)
    scene.change("d1", "d2", "d3")
    assert scene.looked() == EVERYTHING
    assert scene.look.considered == scene.look.total == 3
    assert "no earlier plan" in scene.look.why


# --- work flow: planner -------------------------------------------------------------------------


@says("rfc83.planner.1")
def test_planner_step_1_a_window_begins_at_the_newest_live_plan_completed_or_not() -> None:
    """RFC-83, Work Flow, planner step 1: INSTANT 1 comes from the last service commit; by R11 from
    the last plan that is pending or completed."""
    scene = served("clustering")
    scene.change("d1")
    pending = scene.planned()
    scene.change("d2")
    at = scene.planned()
    assert scene.window_of(at).lo == CompletedAt(pending)
    assert scene.partitions_of(at) == {"d2"}


@REWRITE
@says("rfc83.planner.2", "rfc83.planner.4")
def test_planner_steps_2_and_4_a_plan_records_its_own_instant_as_the_right_edge(
    service: str,
) -> None:
    """RFC-83, Work Flow, planner steps 2 and 4: INSTANT 2 is worked out, and kept in the plan."""
    scene = Scene(service)
    scene.change("d1")
    at = scene.planned()
    record = decode_container(scene.storage.read(scene.plan_file(at)), "x")
    assert record is not None
    holder = record["clusteringPlan"] if service == "clustering" else record
    action = str(scene.action)
    edge = {"timestamp": at, "action": action, "state": "REQUESTED"}
    assert holder["earliestInstantToRetain"] == edge
    assert scene.window_of(at).hi == CompletedAt(at)
    assert all(str(write.completed_at) < at for write in scene.timeline.writes())


@SERVICE
@says("rfc83.planner.3")
def test_planner_step_3_what_changed_in_between_is_planned_and_nothing_else_is_looked_at(
    service: str,
) -> None:
    """RFC-83, Work Flow, planner step 3: all partitions from INSTANT 1 to INSTANT 2 are planned."""
    scene = served(service)
    scene.change("d2", "d3")
    at, places, _ = scene.watched()
    assert at is not None
    assert {"d2", "d3"} <= scene.partitions_of(at) <= places <= {"d0", "d2", "d3"}
    assert scene.look.considered == len(places) and scene.look.total is None


# --- work flow: executor ------------------------------------------------------------------------


@REWRITE
@says("rfc83.executor.1")
def test_executor_step_1_the_instant_comes_from_the_plan_whoever_executes_it(
    service: str,
) -> None:
    """RFC-83, Work Flow, executor step 1: INSTANT 2 is retrieved from the plan, not worked out."""
    scene = Scene(service)
    scene.change("d1")
    at = scene.planned()
    scene.write("d5")  # what is newer when the plan is executed does not matter
    scene.execute(at)
    extra = load_commit_metadata(scene.storage, scene.completed(at)).extra
    assert extra[EDGE_KEY] == at and decode_window(extra[WINDOW_KEY], "x").hi == CompletedAt(at)


@REWRITE
@says("rfc83.executor.2")
def test_executor_step_2_the_plan_is_carried_out_and_no_more(service: str) -> None:
    """RFC-83, Work Flow, executor step 2: the corresponding plan is executed."""
    scene = served(service)
    scene.change("d1")
    at = scene.planned()
    scene.write("d2")
    scene.execute(at)
    written = load_commit_metadata(scene.storage, scene.completed(at))
    assert {partition for partition, _ in written.groups()} == scene.partitions_of(at) == {"d1"}


# --- rollout ------------------------------------------------------------------------------------


@SERVICE
@says("rfc83.rollout")
def test_a_table_whose_plans_say_nothing_is_scanned_once_and_then_goes_by_what_changes(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC-83, Rollout: low impact for current users."""
    scene = Scene(service)
    scene.change("d1", "d2", "d3")
    with monkeypatch.context() as earlier:
        for planner in (compaction, log_compaction, clustering_draft, clean_draft):
            earlier.setattr(planner, "window_extra", lambda window: {})
        scene.run()
    scene.change("d2")
    assert scene.looked() == EVERYTHING and "does not say" in scene.look.why
    pending = scene.timeline.pending(scene.action)
    scene.execute(pending[0].requested_at)
    scene.change("d3")
    assert "d3" in scene.looked() <= {"d2", "d3"}


def test_compactions_carry_what_hudi_calls_missing_partitions() -> None:
    """Apache Hudi's own planner takes the partitions up that the last plan names as missing."""
    scene = Scene("compaction")
    scene.tell(compaction=replace(scene.opened.services.compaction, io_mb=0))
    scene.change("d1", "d2")
    at = scene.planned()
    plan = load_compaction_plan(scene.storage, scene.timeline.pending(Action.COMPACTION)[0])
    assert set(plan.missing) == {"d1", "d2"} - scene.partitions_of(at)
    assert plan.missing == scene.window_of(at).carry and len(plan.missing) == 1
