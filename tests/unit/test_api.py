"""`create` and `open`: what makes sense becomes a table, the rest is refused in words."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lentic
from lentic.api import create, create_table, load_table_config, plan_table
from lentic.config.groups import REGISTRY, TableOptions
from lentic.config.options import UnknownOption, resolve
from lentic.errors import ConfigError, LenticError, SchemaMismatch, TableExists, TableNotFound
from lentic.format.layout import PROPERTIES
from lentic.format.table_config import KeyGenerator, MergeMode, TableConfig, TableType
from lentic.format.times import Zone
from lentic.storage.memory import MemoryStorage

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("seq", pa.int64()),
        ("day", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)


def _chosen(**options: object) -> TableOptions:
    given: dict[str, object] = {
        "hoodie.table.recordkey.fields": "id",
        "hoodie.bucket.index.num.buckets": 4,
    }
    given |= {f"hoodie.{key.replace('__', '.')}": value for key, value in options.items()}
    return TableOptions.parse(resolve(given, REGISTRY))


def _plan(schema: pa.Schema = SCHEMA, root: str = "/lake/orders", **options: object) -> TableConfig:
    return plan_table(root, schema, _chosen(**options))


# Planning


def test_a_plan_fills_in_what_was_left_open() -> None:
    config = _plan()
    assert config.name == "orders"
    assert config.table_type is TableType.MERGE_ON_READ
    assert config.version == 9
    assert config.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    assert config.keygen is KeyGenerator.NON_PARTITION
    assert config.zone is Zone.UTC
    assert (config.key_fields, config.partition_fields, config.buckets) == (("id",), (), 4)
    assert config.create_schema is not None


@pytest.mark.parametrize(
    ("root", "name"),
    [("/lake/orders", "orders"), ("/lake/orders/", "orders"), ("s3://bucket/a/b", "b")],
)
def test_the_name_is_the_last_part_of_the_path(root: str, name: str) -> None:
    assert _plan(root=root).name == name
    assert _plan(root=root, table__name="other").name == "other"


@pytest.mark.parametrize(
    ("keys", "partitions", "keygen"),
    [
        ("id", "", KeyGenerator.NON_PARTITION),
        ("id,seq", "", KeyGenerator.NON_PARTITION),
        ("id", "day", KeyGenerator.SIMPLE),
        ("id,seq", "day", KeyGenerator.COMPLEX),
        ("id", "day,seq", KeyGenerator.COMPLEX),
    ],
)
def test_the_key_generator_follows_from_the_fields(
    keys: str, partitions: str, keygen: KeyGenerator
) -> None:
    config = _plan(table__recordkey__fields=keys, table__partition__fields=partitions)
    assert config.keygen is keygen


def test_ordering_fields_mean_event_time_unless_said_otherwise() -> None:
    assert _plan(table__ordering__fields="at").merge_mode is MergeMode.EVENT_TIME_ORDERING
    by_commit = _plan(table__ordering__fields="at", record__merge__mode="commit_time_ordering")
    assert by_commit.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    assert by_commit.ordering_fields == ("at",)


def test_event_time_without_ordering_fields_contradicts_itself_and_both_keys_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        _plan(record__merge__mode="EVENT_TIME_ORDERING")
    assert "hoodie.record.merge.mode" in caught.value.what
    assert "hoodie.table.ordering.fields" in caught.value.what


@pytest.mark.parametrize("kind", ["MERGE_ON_READ", "copy_on_write", "Merge_On_Read"])
def test_a_table_type_is_read_in_any_case(kind: str) -> None:
    assert _plan(table__type=kind).table_type is TableType(kind.upper())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table__recordkey__fields": ""}, "key column"),
        ({"table__type": "MERGE"}, "'MERGE'"),
        ({"record__merge__mode": "CUSTOM"}, "'CUSTOM'"),
        ({"record__merge__mode": "newest"}, "'newest'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _plan(**options)
    assert said in caught.value.what
    assert caught.value.safe == "nothing was written"
    assert caught.value.next_step


def test_a_table_without_buckets_looks_keys_up(tmp_path: Path) -> None:
    config = plan_table("/t", SCHEMA, replace(_chosen(), buckets=None))
    assert config.buckets is None
    made = _create(tmp_path, buckets=None, schema="id string, v int")
    batch = pa.table({"id": ["a", "b"], "v": pa.array([1, 2], pa.int32())})
    assert made.upsert(batch).inserted == 2
    again = lentic.open(made.path)
    assert again.config.buckets is None
    assert "lentic.buckets" not in Path(made.path, PROPERTIES).read_text()
    done = again.upsert(batch.slice(1))
    assert (done.inserted, done.updated) == (0, 1)
    assert sorted(again.read().column("id").to_pylist()) == ["a", "b"]


@pytest.mark.parametrize(
    ("option", "argument"),
    [
        ("table__recordkey__fields", "key"),
        ("table__partition__fields", "partition_by"),
        ("table__ordering__fields", "ordering"),
    ],
)
def test_fields_must_be_plain_columns_of_the_schema(option: str, argument: str) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        _plan(**{option: "nope"})
    assert f"{argument} names column nope" in caught.value.what
    assert "id, seq, day, at, tags" in caught.value.next_step
    with pytest.raises(SchemaMismatch, match=f"{argument} names column tags of type list"):
        _plan(**{option: "tags"})


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("id", pa.string()), ("_hoodie_commit_time", pa.string())]),
        pa.schema([("id", pa.string()), ("n", pa.uint64())]),
        pa.schema([("id", pa.string()), ("not a name", pa.int64())]),
        pa.schema([("id", pa.string()), ("n", pa.int64()), ("n", pa.int64())]),
        pa.schema([("id", pa.string()), ("id", pa.string())]),
    ],
)
def test_a_schema_that_no_table_can_have_is_refused(schema: pa.Schema) -> None:
    with pytest.raises(SchemaMismatch):
        _plan(schema)


def test_a_planned_table_reads_back_from_its_properties() -> None:
    storage = MemoryStorage()
    config = _plan(
        table__partition__fields="day",
        table__ordering__fields="at,seq",
        datasource__write__hive_style_partitioning=True,
        database__name="db",
    )
    create_table(storage, config)
    assert replace(load_table_config(storage), extra={}) == config


# Creating and opening


def test_a_table_is_created_once() -> None:
    storage = MemoryStorage()
    create_table(storage, _plan())
    before = storage.read(PROPERTIES)
    with pytest.raises(TableExists) as caught:
        create_table(storage, _plan(table__name="other"))
    assert storage.read(PROPERTIES) == before
    assert "lentic.open" in caught.value.next_step


def _create(path: Path, **arguments: Any) -> lentic.Table:
    given: dict[str, Any] = {"key": "id", "buckets": 4} | arguments
    return create(str(path / "t"), given.pop("schema", SCHEMA), **given)


def test_arguments_and_options_may_say_the_same(tmp_path: Path) -> None:
    made = _create(
        tmp_path,
        partition_by=["day"],
        ordering="at",
        table_type="COPY_ON_WRITE",
        options={
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.table.partition.fields": "day",
            "hoodie.datasource.write.precombine.field": "at",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.bucket.index.num.buckets": 4,
        },
    )
    assert made.config.table_type is TableType.COPY_ON_WRITE
    assert replace(lentic.open(made.path).config, extra={}) == replace(made.config, extra={})


@pytest.mark.parametrize(
    ("argument", "value", "option", "other"),
    [
        ("key", "id", "hoodie.table.recordkey.fields", "seq"),
        ("partition_by", "day", "hoodie.table.partition.fields", "seq"),
        ("ordering", "at", "hoodie.table.ordering.fields", "seq"),
        ("table_type", "MERGE_ON_READ", "hoodie.table.type", "COPY_ON_WRITE"),
        ("buckets", 4, "hoodie.bucket.index.num.buckets", 8),
    ],
)
def test_an_argument_and_an_option_that_disagree_are_refused_and_both_named(
    tmp_path: Path, argument: str, value: Any, option: str, other: Any
) -> None:
    with pytest.raises(ConfigError) as caught:
        _create(tmp_path, **{argument: value}, options={option: other})
    assert f"{argument}=" in caught.value.what
    assert option in caught.value.what
    assert list(tmp_path.rglob("hoodie.properties")) == []


def test_an_argument_and_an_option_in_other_letters_agree(tmp_path: Path) -> None:
    made = _create(
        tmp_path, table_type="copy_on_write", options={"hoodie.table.type": "COPY_ON_WRITE"}
    )
    assert made.config.table_type is TableType.COPY_ON_WRITE


@pytest.mark.parametrize("buckets", [0, -1, True, 100_000_000, 10**12, 8.5])
def test_a_bucket_count_that_no_table_can_have_is_refused(tmp_path: Path, buckets: Any) -> None:
    """Whatever `create` accepts, `open` must accept as well."""
    with pytest.raises(ConfigError, match="buckets"):
        _create(tmp_path, buckets=buckets)
    assert list(tmp_path.rglob("hoodie.properties")) == []


def test_opening_with_another_bucket_count_is_refused(tmp_path: Path) -> None:
    """N16."""
    made = _create(tmp_path)
    same = lentic.open(made.path, options={"hoodie.bucket.index.num.buckets": 4})
    assert same.config.buckets == 4
    with pytest.raises(ConfigError) as caught:
        lentic.open(made.path, options={"hoodie.bucket.index.num.buckets": 8})
    assert "num.buckets=8 contradicts the table's own=4" in caught.value.what
    assert "hoodie.bucket.index.num.buckets=8" in caught.value.what


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.table.recordkey.fields", "seq"),
        ("hoodie.table.partition.fields", "day"),
        ("hoodie.table.ordering.fields", "at"),
        ("hoodie.table.type", "COPY_ON_WRITE"),
        ("hoodie.datasource.write.hive_style_partitioning", True),
    ],
)
def test_opening_with_an_option_that_contradicts_the_table_is_refused_not_ignored(
    tmp_path: Path, option: str, value: Any
) -> None:
    made = _create(tmp_path)
    with pytest.raises(ConfigError, match=option.replace(".", r"\.")):
        lentic.open(made.path, options={option: value})


def test_opening_nothing_says_where_and_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound) as caught:
        lentic.open(str(tmp_path / "nothing"))
    assert str(tmp_path / "nothing") in caught.value.what
    assert "lentic.create" in caught.value.next_step


def test_an_option_nobody_reads_is_warned_about_where_the_user_called(tmp_path: Path) -> None:
    with pytest.warns(UnknownOption, match="Did you mean hoodie.table.type") as caught:
        made = _create(tmp_path, options={"hoodie.table.typo": "x"})
    assert caught[0].filename == __file__, "the warning points at the caller of create"
    with pytest.warns(UnknownOption) as caught:
        lentic.open(made.path, options={"hoodie.nothing.of.the.kind": 1})
    assert caught[0].filename == __file__, "the warning points at the caller of open"


@pytest.mark.parametrize("schema", [SCHEMA, "id string, seq bigint, day string"])
def test_a_schema_may_be_arrow_or_ddl(tmp_path: Path, schema: Any) -> None:
    made = _create(tmp_path, schema=schema)
    assert made.schema.names[:3] == ["id", "seq", "day"]


@pytest.mark.parametrize("schema", [None, 7, {"id": "string"}, ["id"]])
def test_another_kind_of_schema_is_refused(tmp_path: Path, schema: object) -> None:
    with pytest.raises(ConfigError, match=type(schema).__name__):
        _create(tmp_path, schema=schema)


def test_every_refusal_of_create_leaves_the_path_free(tmp_path: Path) -> None:
    for bad in ({"key": None}, {"key": "nope"}, {"table_type": "x"}, {"schema": "id"}):
        with pytest.raises(LenticError):
            _create(tmp_path, **bad)
    assert _create(tmp_path).read().num_rows == 0


def test_a_wrong_option_leaves_no_table_behind(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with pytest.raises(ConfigError, match="lentic.write.exact_counts"):
        lentic.create(path, "id string", key="id", options={"lentic.write.exact_counts": "maybe"})
    with pytest.raises(TableNotFound):
        lentic.open(path)


ZOOKEEPER = {
    "hoodie.write.lock.provider": "zookeeper",
    "hoodie.write.lock.zookeeper.url": "127.0.0.1:1",
    "hoodie.write.lock.zookeeper.base_path": "/locks",
}


def test_the_zookeeper_lock_has_both_names_and_connects_only_when_it_is_wanted(
    tmp_path: Path,
) -> None:
    hudi = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
    for name, provider in (("a", "zookeeper"), ("b", hudi)):
        options = ZOOKEEPER | {"hoodie.write.lock.provider": provider}
        table = lentic.create(str(tmp_path / name), "id string", key="id", options=options)
        assert table.read().num_rows == 0
    with pytest.raises(ConfigError, match="base_path"):
        lentic.create(
            str(tmp_path / "c"),
            "id string",
            key="id",
            options={"hoodie.write.lock.provider": "zookeeper"}
            | {"hoodie.write.lock.zookeeper.url": "zk-1"},
        )


def test_without_its_client_the_zookeeper_lock_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "kazoo"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "kazoo", None)
    for module in ("lock_zookeeper", "curator", "zookeeper"):
        monkeypatch.delitem(sys.modules, f"lentic.coordination.{module}", raising=False)
    with pytest.raises(ConfigError, match=r"kazoo\S* is not installed") as caught:
        lentic.create(str(tmp_path / "t"), "id string", key="id", options=ZOOKEEPER)
    assert caught.value.next_step == "pip install 'lentic[zookeeper]'"


def test_who_does_not_ask_for_zookeeper_does_not_load_its_client() -> None:
    code = "import lentic, sys; sys.exit('kazoo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
