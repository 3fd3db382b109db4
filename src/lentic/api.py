"""`create` and `open`: from a path, a schema and options to a `Table` on the engine asked for."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lentic.config.column_groups import format_column_groups
from lentic.config.groups import (
    BUCKETS,
    BUCKETS_MAX,
    DATABASE,
    HIVE_STYLE,
    KEY_FIELDS,
    MERGE_MODE,
    NAME,
    ORDERING_FIELDS,
    PARTIAL_GROUPS,
    PARTITION_FIELDS,
    PROGRESS,
    REGISTRY,
    TABLE_TYPE,
    URL_ENCODE,
    ShowProgress,
    TableOptions,
    WriteOptions,
    storage_options,
)
from lentic.config.options import Option, Settings, contradiction, resolve
from lentic.config.services import ServiceOptions
from lentic.config.sharing import LockKind, LockOptions, SharingOptions
from lentic.config.zookeeper import ZooKeeperOptions
from lentic.coordination.heartbeat import Pulse, Watch
from lentic.coordination.lock import LockProvider
from lentic.coordination.providers import choose_lock, probe_first
from lentic.engine import Engine, LocalEngine
from lentic.errors import (
    ConfigError,
    Corrupt,
    MissingFile,
    SchemaMismatch,
    TableExists,
    TableNotFound,
)
from lentic.format import layout
from lentic.format.avro_schema import avro_schema_json
from lentic.format.ddl import parse_ddl
from lentic.format.record_fields import META_FIELDS
from lentic.format.table_config import (
    MergeMode,
    TableConfig,
    TableType,
    decode_table_config,
    encode_table_config,
    infer_keygen,
    infer_merge_mode,
)
from lentic.progress import Progress, bars
from lentic.storage.base import Storage
from lentic.storage.open import open_storage
from lentic.table import Table
from lentic.txn.modes import ensure_mode_fits
from lentic.txn.transaction import OpenTable
from lentic.world import World, real_world
from lentic.write.column_groups import ensure_sound_groups

Names = str | Sequence[str] | None

_log = logging.getLogger(__name__)
_watches: dict[tuple[str, Pulse], Watch] = {}


def create(
    path: str,
    schema: Any,
    *,
    key: Names = None,
    partition_by: Names = None,
    ordering: Names = None,
    table_type: str | None = None,
    buckets: int | None = None,
    options: Mapping[str, object] | None = None,
    spark: Any = None,
) -> Table:
    """Create a table at `path` and open it. `TableExists` if there is one already.

    `schema`: a pyarrow schema, a Spark StructType or a DDL string. `key`, `partition_by`,
    `ordering`: a column name or a list. `table_type`: "MERGE_ON_READ" (default) or
    "COPY_ON_WRITE". `buckets`: file groups per partition; a key's hash picks one, so that many
    writers may meet. Without buckets keys are looked up in the base files.
    """
    settings = resolve(options or {}, REGISTRY)
    storage = open_storage(str(path), storage_options(settings))
    chosen = _merge_arguments(
        TableOptions.parse(settings),
        key=_names(key),
        partition_by=_names(partition_by),
        ordering=_names(ordering),
        table_type=table_type,
        buckets=buckets,
    )
    config = plan_table(storage.root, _arrow_schema(schema), chosen)
    parts = _parts(storage, config, settings, spark, real_world())  # refuses wrong options first
    create_table(storage, config)
    return Table(*parts)


def open(path: str, *, options: Mapping[str, object] | None = None, spark: Any = None) -> Table:
    """Open the table at `path`. `TableNotFound` if there is none."""
    # Here and not further in: what nobody reads is warned about where the user called.
    settings = resolve(options or {}, REGISTRY)
    return Table(*open_parts(path, settings, spark))


def open_parts(
    path: str, settings: Settings, spark: Any = None, world: World | None = None
) -> tuple[OpenTable, Engine]:
    """What `open` makes a table of, for those who run services on it, in a world of their own."""
    storage = open_storage(str(path), storage_options(settings))
    config = load_table_config(storage)
    wanted = TableOptions.parse(settings)
    ensure_agrees(config, wanted, settings)
    buckets = wanted.buckets or config.buckets
    return _parts(storage, replace(config, buckets=buckets), settings, spark, world or real_world())


def load_table_config(storage: Storage) -> TableConfig:
    """What the table at `storage` is; `TableNotFound` if nothing is there.

    Apache Hudi makes a backup of the file, deletes it and writes it anew: the backup counts while
    the file is not there, or not whole.
    """
    damaged: Corrupt | None = None
    for path in (layout.PROPERTIES, layout.PROPERTIES_BACKUP):
        try:
            config = decode_table_config(storage.read(path), path)
        except (MissingFile, Corrupt) as error:
            damaged = damaged or (error if isinstance(error, Corrupt) else None)
            continue
        if damaged is not None:
            says = "%s/%s does not read, and its backup is taken instead: %s"
            _log.warning(says, storage.root, damaged.where, damaged.what)
        return config
    if damaged is not None:
        raise Corrupt(
            damaged.what,
            where=f"{storage.root}/{damaged.where}",
            safe="nothing was read or written",
            next_step=damaged.next_step or "bring the file back from a copy of the table",
        )
    raise TableNotFound(
        f"There is no table at {storage.root}.",
        safe="nothing was read or written",
        next_step="check the path, or make one: lentic.create(path, schema, key=...)",
    )


def ensure_agrees(config: TableConfig, wanted: TableOptions, settings: Settings) -> None:
    """What an option says about a table must be what the table says itself."""
    pairs: tuple[tuple[Option[Any], object, object], ...] = (
        (NAME, wanted.name, config.name),
        (DATABASE, wanted.database, config.database),
        (TABLE_TYPE, wanted.table_type.upper(), config.table_type.value),
        (KEY_FIELDS, wanted.key_fields, config.key_fields),
        (PARTITION_FIELDS, wanted.partition_fields, config.partition_fields),
        (ORDERING_FIELDS, wanted.ordering_fields, config.ordering_fields),
        (MERGE_MODE, wanted.merge_mode.upper(), config.merge_mode.value),
        (HIVE_STYLE, wanted.hive_style, config.hive_style),
        (URL_ENCODE, wanted.url_encode, config.url_encode),
        (BUCKETS, wanted.buckets, config.buckets or wanted.buckets),
        (
            PARTIAL_GROUPS,
            format_column_groups(wanted.column_groups),
            format_column_groups(config.column_groups),
        ),
    )
    for option, said, kept in pairs:
        if option.key in settings and said != kept:
            raise contradiction(option.key, said, "the table's own", kept)


def create_table(storage: Storage, config: TableConfig) -> None:
    """Write hoodie.properties; the table exists from that moment on."""
    if not storage.put_if_absent(layout.PROPERTIES, encode_table_config(config)):
        raise TableExists(
            f"There is a table at {storage.root} already.",
            safe="nothing was changed",
            next_step="open it: lentic.open(path), or choose another path",
        )


def plan_table(root: str, schema: pa.Schema, chosen: TableOptions) -> TableConfig:
    """The configuration of a new table; `ConfigError` or `SchemaMismatch` if it makes no sense."""
    name = chosen.name or root.rstrip("/").rpartition("/")[2]
    merge_mode = _merge_mode(chosen)
    if not chosen.key_fields:
        raise _refused("A table needs at least one key column.", 'key="id"')
    if twice := sorted({column for column in schema.names if schema.names.count(column) > 1}):
        raise SchemaMismatch(
            f"The schema has column {twice[0]} twice.",
            safe="nothing was written",
            next_step=f"rename one {twice[0]}",
        )
    for what, fields in (
        ("key", chosen.key_fields),
        ("partition_by", chosen.partition_fields),
        ("ordering", chosen.ordering_fields),
    ):
        _ensure_columns(schema, what, fields)
    if reserved := [column for column in schema.names if column in META_FIELDS]:
        raise SchemaMismatch(
            f"Column {reserved[0]} is the table's own.",
            safe="nothing was written",
            next_step=f"leave {reserved[0]} out of the schema",
        )
    ensure_sound_groups(schema, chosen)
    return TableConfig(
        name=name,
        database=chosen.database,
        table_type=_table_type(chosen.table_type),
        key_fields=chosen.key_fields,
        partition_fields=chosen.partition_fields,
        ordering_fields=chosen.ordering_fields,
        merge_mode=merge_mode,
        keygen=infer_keygen(chosen.key_fields, chosen.partition_fields),
        hive_style=chosen.hive_style,
        url_encode=chosen.url_encode,
        buckets=chosen.buckets,
        column_groups=chosen.column_groups,
        create_schema=avro_schema_json(schema, name, meta_fields=False),
    )


def _merge_mode(chosen: TableOptions) -> MergeMode:
    inferred = infer_merge_mode(chosen.ordering_fields)
    if not chosen.merge_mode:
        return inferred
    wanted = chosen.merge_mode.upper()
    if wanted == MergeMode.EVENT_TIME_ORDERING and not chosen.ordering_fields:
        raise contradiction(
            "hoodie.record.merge.mode", wanted, "hoodie.table.ordering.fields", "(none)"
        )
    if wanted not in (MergeMode.EVENT_TIME_ORDERING, MergeMode.COMMIT_TIME_ORDERING):
        raise _refused(
            f"hoodie.record.merge.mode cannot be {chosen.merge_mode!r}.",
            "EVENT_TIME_ORDERING or COMMIT_TIME_ORDERING",
        )
    return MergeMode(wanted)


def _table_type(text: str) -> TableType:
    wanted = (text or TableType.MERGE_ON_READ.value).upper()
    if wanted not in tuple(TableType):
        raise _refused(f"table_type cannot be {text!r}.", '"MERGE_ON_READ" or "COPY_ON_WRITE"')
    return TableType(wanted)


def _ensure_columns(schema: pa.Schema, what: str, fields: Sequence[str]) -> None:
    for name in fields:
        if name not in schema.names:
            raise SchemaMismatch(
                f"{what} names column {name}, which the schema does not have.",
                safe="nothing was written",
                next_step=f"choose among {', '.join(schema.names)}",
            )
        if pa.types.is_nested(schema.field(name).type):
            raise SchemaMismatch(
                f"{what} names column {name} of type {schema.field(name).type}.",
                safe="nothing was written",
                next_step="choose a column with plain values",
            )


def _merge_arguments(
    given: TableOptions,
    *,
    key: tuple[str, ...],
    partition_by: tuple[str, ...],
    ordering: tuple[str, ...],
    table_type: str | None,
    buckets: int | None,
) -> TableOptions:
    """Arguments and options together; both may say a thing, but not two different things."""

    def agree(argument: str, said: Any, option: str, also: Any) -> Any:
        if said and also and said != also:
            raise contradiction(argument, said, option, also)
        return said or also

    if buckets is not None and not (type(buckets) is int and 1 <= buckets <= BUCKETS_MAX):
        raise _refused(f"buckets cannot be {buckets!r}.", "buckets=8, a whole number from 1")
    return replace(
        given,
        key_fields=agree("key", key, "hoodie.table.recordkey.fields", given.key_fields),
        partition_fields=agree(
            "partition_by", partition_by, "hoodie.table.partition.fields", given.partition_fields
        ),
        ordering_fields=agree(
            "ordering", ordering, "hoodie.table.ordering.fields", given.ordering_fields
        ),
        table_type=agree(
            "table_type",
            (table_type or "").upper(),
            "hoodie.table.type",
            given.table_type.upper(),
        ),
        buckets=agree("buckets", buckets, "hoodie.bucket.index.num.buckets", given.buckets),
    )


def _parts(
    storage: Storage, config: TableConfig, settings: Settings, spark: Any, world: World
) -> tuple[OpenTable, Engine]:
    lock_options, sharing = LockOptions.parse(settings), SharingOptions.parse(settings)
    ensure_mode_fits(config, sharing.mode)
    pulse = Pulse(sharing.heartbeat_interval_ms, sharing.heartbeat_misses)
    opened = OpenTable(
        storage=storage,
        config=config,
        lock=(
            _zookeeper_lock(storage, world, lock_options, sharing, settings, config.name)
            if lock_options.kind is LockKind.ZOOKEEPER
            else choose_lock(storage, world, lock_options, sharing)
        ),
        world=world,
        write_options=WriteOptions.parse(settings),
        lock_options=lock_options,
        sharing=sharing,
        services=ServiceOptions.parse(settings),
        # What was seen of heartbeats outlives a handle on the table: see `coordination.heartbeat`.
        watch=_watches.setdefault((storage.root, pulse), Watch(world.clock, pulse.ttl_ms)),
    )
    progress = None if PROGRESS.of(settings) is ShowProgress.OFF else bars()
    return opened, _engine(spark, progress)


def _zookeeper_lock(
    storage: Storage,
    world: World,
    options: LockOptions,
    sharing: SharingOptions,
    settings: Settings,
    table_name: str,
) -> LockProvider:
    wanted = ZooKeeperOptions.parse(settings, table_name)
    module = _optional_module("lentic.coordination.lock_zookeeper", "ZooKeeper", "zookeeper")
    lock: LockProvider = module.ZooKeeperLock(storage, world, options.wait_ms, wanted)
    return probe_first(lock, storage, sharing)


def _engine(spark: Any, progress: Progress | None) -> Engine:
    if spark is None:
        return LocalEngine(progress=progress)
    engine: Engine = _spark_room("lentic.spark.engine").SparkEngine(spark, progress)
    return engine


def _spark_room(module: str) -> Any:
    """A module of the Spark room, which only those who have PySpark can load."""
    return _optional_module(module, "Spark", "spark")


def _optional_module(module: str, what: str, extra: str) -> Any:
    """A module of ours that needs a package which not everybody has."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{what} was asked for, but {error.name} is not installed.",
            safe="nothing was written",
            next_step=f"pip install 'lentic[{extra}]'",
        ) from error


def _arrow_schema(schema: Any) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if isinstance(schema, str):
        return parse_ddl(schema)
    if type(schema).__module__.startswith("pyspark."):
        converted: pa.Schema = _spark_room("lentic.spark.dataframe").arrow_schema(schema)
        return converted
    raise ConfigError(
        f"A schema cannot be a {type(schema).__name__}.",
        safe="nothing was written",
        next_step="pass a pyarrow schema, a Spark StructType or a DDL string",
    )


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())


def _refused(what: str, next_step: str) -> ConfigError:
    return ConfigError(what, safe="nothing was written", next_step=next_step)
