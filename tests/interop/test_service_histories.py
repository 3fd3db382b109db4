"""Random histories of writes and services by both engines: every reader sees what the model holds.

    LENTIC_SERVICE_HISTORIES=40        how many histories (2 unless told)
    LENTIC_SERVICE_HISTORY_SEED=17     the first one's seed (0)

lentic and hudi-rs look after every step, and lentic examines the table; Apache Hudi looks after
every third one. If a number of histories was asked for it looks after each, and they are longer. A
failure tells seed, shape and steps, and keeps the table.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.interop.compare import RowsDiffer
from tests.interop.readers import ApacheHudi, EngineFailed
from tests.interop.service_histories import LENGTH, SHAPES, make_history
from tests.interop.service_player import Player
from tests.interop.services import ServiceStory
from tests.rfc.claims import says

ASKED_FOR = os.environ.get("LENTIC_SERVICE_HISTORIES", "")
AMOUNT = int(ASKED_FOR or "2")
FIRST = int(os.environ.get("LENTIC_SERVICE_HISTORY_SEED", "0"))
LOOK_EVERY = 3
STEPS = LENGTH if ASKED_FOR else 9


@says("R18")
@pytest.mark.interop
@pytest.mark.parametrize("seed", range(FIRST, FIRST + AMOUNT))
def test_no_history_of_services_by_both_engines_changes_a_row(
    seed: int, apache_hudi: ApacheHudi
) -> None:
    history = make_history(seed)
    # Not a folder of pytest's, which the next runs would clear away with the evidence in it.
    folder = Path(tempfile.mkdtemp(prefix=f"lentic-services-{seed}-"))
    apache_hudi.ensure_running()
    maker = history.steps[0].by
    story = ServiceStory.begin_by(
        maker, str(folder / "t"), history.shape, apache_hudi, is_thorough=bool(ASKED_FOR)
    )
    player = Player(story)
    try:
        for number, step in enumerate(history.steps[:STEPS], 1):
            player.play(step)
            if number % LOOK_EVERY == 0:
                story.look(str(step))
        story.look("all of it")
        player.look_at_the_past()
    except Exception as failure:
        told = [f"seed {seed}, kept in {folder}", str(history.shape), *player.trace]
        if isinstance(failure, RowsDiffer):
            notes = getattr(failure, "__notes__", [])
            raise pytest.fail.Exception(
                "\n".join([str(failure), *notes, *told]), pytrace=False
            ) from None
        if isinstance(failure, EngineFailed):
            apache_hudi.end()  # its state is unknown: the next history starts anew
        failure.add_note("\n".join(told))
        raise
    shutil.rmtree(folder)


def test_a_seed_gives_the_same_services_every_time() -> None:
    assert all(make_history(seed) == make_history(seed) for seed in range(40))


def test_histories_cover_every_service_by_both_engines_on_every_shape() -> None:
    histories = [make_history(seed) for seed in range(120)]
    assert {history.shape for history in histories} == set(SHAPES)
    done = {(step.kind, step.by) for history in histories for step in history.steps}
    assert len(done) == 2 * 16, sorted(done)
