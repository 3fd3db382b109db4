"""`lentic serve`: look after many tables until told to stop."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Annotated, Any

import typer

import lentic
from lentic.api import open_parts
from lentic.cli.given import ensure_number, parse_options
from lentic.config.groups import PROGRESS, REGISTRY, ShowProgress, storage_options
from lentic.config.options import Settings, resolve
from lentic.config.services import ServiceOptions
from lentic.config.sharing import LockOptions, SharingOptions
from lentic.errors import ConfigError, LenticError
from lentic.runner.brake import Brake, heeding_world
from lentic.runner.budget import Budget
from lentic.runner.decide import parse_services
from lentic.runner.events import Event, format_json, format_text
from lentic.runner.find import find_tables
from lentic.runner.loop import Orders, Outside, Runner
from lentic.runner.metrics import Metrics
from lentic.runner.metrics_file import MetricsFile
from lentic.runner.metrics_server import Answer, serving
from lentic.runner.stop import SignalStop, leaving_at_once
from lentic.runner.ward import Open
from lentic.world import World, real_world

_log = logging.getLogger(__name__)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?b)?\Z", re.IGNORECASE)
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_WAIT_S_MAX = 366 * 86_400
"""A year: a wait of centuries is an error in the system's own clocks."""
_WHAT, _LIMITS, _METRICS = "What is done", "Limits", "Metrics"


Paths = Annotated[
    list[str],
    typer.Argument(help="Tables, or folders of tables.", show_default=False, metavar="PATH"),
]
Services = Annotated[
    str,
    typer.Option(
        help="Comma-separated: compaction, log_compaction, clustering, clean, archive, "
        "failed_writes. Without it all but log compaction and clustering, which the options "
        "hoodie.log.compaction.inline and hoodie.clustering.inline turn on; and every plan that "
        "somebody left pending.",
        show_default=False,
        rich_help_panel=_WHAT,
    ),
]
GivenOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="An option for all tables, hoodie.…=value; may be repeated. Say how the tables' "
        "writers share them, and heartbeats, as the writers do.",
        show_default=False,
        metavar="KEY=VALUE",
        rich_help_panel=_WHAT,
    ),
]
Master = Annotated[
    str,
    typer.Option(
        help="Run on this Spark master; without it in threads of this process.",
        metavar="MASTER",
        show_default=False,
        rich_help_panel=_WHAT,
    ),
]
Once = Annotated[
    bool,
    typer.Option(
        "--once",
        help="One pass over the tables, then end; exit code 1 if anything failed.",
        rich_help_panel=_WHAT,
    ),
]
Interval = Annotated[
    float, typer.Option(min=0.05, help="Seconds between passes.", rich_help_panel=_WHAT)
]
Depth = Annotated[
    int,
    typer.Option(
        min=0, max=20, help="Folders down that tables are looked for.", rich_help_panel=_WHAT
    ),
]
Rescan = Annotated[
    float,
    typer.Option(
        min=0, help="Seconds between looks for new tables in folders.", rich_help_panel=_WHAT
    ),
]
MaxBytes = Annotated[
    str,
    typer.Option(
        help="Bytes that a pass may write, such as 20GB, and the size of new plans; what does not "
        "fit waits for the next pass.",
        metavar="SIZE",
        show_default=False,
        rich_help_panel=_LIMITS,
    ),
]
MaxMinutes = Annotated[
    float,
    typer.Option(
        min=0,
        help="Minutes after which a pass begins nothing more; 0: no limit.",
        rich_help_panel=_LIMITS,
    ),
]
MaxActionMinutes = Annotated[
    float,
    typer.Option(
        min=0,
        help="Minutes after which one action is stopped, and tried again later; 0: no limit.",
        rich_help_panel=_LIMITS,
    ),
]
Grace = Annotated[
    float,
    typer.Option(
        min=0,
        help="Seconds that the action under way has to finish after SIGTERM or SIGINT.",
        rich_help_panel=_LIMITS,
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Answer GET /metrics (Prometheus) and /healthz on this port; 0: any free one.",
        show_default=False,
        rich_help_panel=_METRICS,
    ),
]
MetricsHost = Annotated[
    str, typer.Option(help="The address to listen on.", rich_help_panel=_METRICS)
]
MetricsPath = Annotated[
    str | None,
    typer.Option(
        "--metrics-file",
        help="Write the metrics to this file after each pass, for a collector of text files. "
        "Its folder has to be there.",
        show_default=False,
        rich_help_panel=_METRICS,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line instead of text.")]


def serve(
    paths: Paths,
    services: Services = "",
    option: GivenOptions = None,
    spark: Master = "",
    once: Once = False,
    interval: Interval = 30.0,
    depth: Depth = 3,
    rescan: Rescan = 300.0,
    max_bytes: MaxBytes = "",
    max_minutes: MaxMinutes = 0.0,
    max_action_minutes: MaxActionMinutes = 0.0,
    grace: Grace = 20.0,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_file: MetricsPath = None,
    as_json: Json = False,
) -> None:
    """Look after many tables: run what is due, finish what others left.

    Start it as often as you like, on as many machines as you like. A plan is
    executed by one of them at a time, and when that one dies another takes
    over. Each action prints one line. SIGTERM or SIGINT end it in good order.
    """
    orders = Orders(
        services=parse_services(services),
        budget=Budget(parse_size(max_bytes), _seconds("--max-minutes", max_minutes, 60)),
        interval_s=_seconds("--interval", interval),
        rescan_s=_seconds("--rescan", rescan),
        action_s_max=_seconds("--max-action-minutes", max_action_minutes, 60),
        grace_s=_seconds("--grace", grace),
    )
    settings = _parse_settings(option or ())
    file = None if metrics_file is None else MetricsFile(metrics_file)
    if file is not None:
        file.ensure_usable()
    stop, metrics, brake, world = SignalStop(), Metrics(), Brake(), real_world()
    save = _nothing if file is None else partial(_save_metrics, metrics, file)
    # Not within the block below: of a session that is left half begun the JVM stays behind.
    open_table = _opener(settings, spark, heeding_world(world, brake))
    with ExitStack() as held:
        held.enter_context(leaving_at_once())
        outside = Outside(
            world=world,
            stop=stop,
            find=partial(find_tables, paths, storage_options(settings), depth=depth),
            open_table=open_table,
            emit=partial(_print_event, format_json if as_json else format_text),
            metrics=metrics,
            brake=brake,
        )
        outside.find()  # a path that is none is refused before anything begins
        held.enter_context(stop.listening())
        if metrics_port is not None:
            answers = _answers(metrics, stop)
            port = held.enter_context(serving(metrics_host, metrics_port, answers))
            typer.echo(f"metrics: http://{metrics_host}:{port}/metrics", err=True)
        runner = Runner(orders, outside)
        if not once:
            return runner.run(save)
        failures = runner.run_cycle()
        save()
    if failures:
        raise typer.Exit(1)


def _answers(metrics: Metrics, stop: SignalStop) -> dict[str, Answer]:
    return {
        "/metrics": lambda: (200, metrics.text()),
        "/healthz": lambda: (503, "stopping\n") if stop.is_asked else (200, "ok\n"),
    }


def _seconds(option: str, value: float, unit_s: int = 1) -> float:
    return ensure_number(option, value, most=_WAIT_S_MAX // unit_s) * unit_s


def parse_size(text: str) -> int:
    """Bytes in a text such as 500MB or 1.5GiB, both by powers of 1024; "" is 0."""
    if not text:
        return 0
    found = _SIZE.match(text.strip())
    if found is None:
        raise ConfigError(
            f"{text!r} is no size.",
            safe="nothing was done",
            next_step="write it like --max-bytes 20GB, or 1.5TB",
        )
    # Upwards: a part of a byte must not become 0, which is without limit.
    return ceil(Fraction(found[1]) * (1 << (10 * _UNITS[found[2].lower()])))


def _parse_settings(given: Sequence[str]) -> Settings:
    """The options, refused here once rather than by each table."""
    options = {PROGRESS.key: ShowProgress.OFF.value} | parse_options(given)
    settings = resolve(options, REGISTRY)
    for group in (ServiceOptions, SharingOptions, LockOptions):
        group.parse(settings)
    return settings


def _opener(settings: Settings, master: str, world: World) -> Open:
    session: Any = None
    if master:
        try:
            session = lentic.spark.session("lentic-serve", master)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"Spark was asked for, but {error.name} is not installed.",
                safe="nothing was done",
                next_step="pip install 'lentic[spark]'",
            ) from error
    return lambda place: open_parts(place.path, settings, session, world)


def _print_event(render: Callable[[Event], str], event: Event) -> None:
    typer.echo(render(event))


def _save_metrics(metrics: Metrics, file: MetricsFile) -> None:
    """Whole or not at all; a failure is no reason to stop."""
    try:
        file.save(metrics.text())
    except LenticError as error:
        _log.warning("the metrics file was not written: %s", error.what)


def _nothing() -> None:
    pass
