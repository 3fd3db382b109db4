"""One Spark session with Apache Hudi, serving commands as JSON lines; runs in Hudi's environment.

    usage: python hudi_server.py JAR SCRATCH

Each request on stdin is one line and gets one line on the reply channel, in order:

    {"cmd": "read", "path", "out", "columns", "where", "options"} -> {"rows": n, "schema": {...}}
    {"cmd": "write", "path", "input", "options"}    -> {"written": true}
    {"cmd": "sql", "path", "statements", "views", "settings"} -> {"rows": [[text, ...], ...]}
    {"cmd": "service", "path", "service", "op", "at", "options"} -> {"at": text or null}
    {"cmd": "lock", "options"}                      -> {"held": true or false}
    {"cmd": "unlock"}                               -> {"held": false}
    {"cmd": "lock_file", "text"}                    -> {"expired", "valid_until", "owner"}
    {"cmd": "stop"}                                 -> {"stopped": true}, then the process ends

The first line, `{"ready": true}`, says that the session is up. A command that fails is answered
with `{"error": text, "ended": false}` and the next one is served; `ended` says that the JVM is gone
and this process goes as well. End of input means stop. The reply channel is the stdout this process
was started with; stdout itself then points at stderr, because the JVM and libraries write to it as
they like. `out` and `input` are Parquet, timestamps as INT64 microseconds. `lock` takes the lock of
a table as Hudi's own writers do, with the provider that the options name, and keeps it. `service`
runs a table service through Hudi's write client, as its own tools do: `schedule` answers with the
time of the plan or null, `execute` carries the plan `at` out.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, TextIO

from py4j.protocol import Py4JNetworkError
from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    # Many short commands: the second compiler and a parallel collector cost more than they save.
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Values before 1900 cross as they are stored instead of being refused.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Hudi's two-level lists cannot hold null elements.
    "spark.hadoop.parquet.avro.write-old-list-structure": "false",
}


def start_session(jar: str, scratch: str) -> SparkSession:
    """A local session with the bundle; everything it leaves on disk goes under `scratch`."""
    builder = SparkSession.builder.master("local[2]").appName("interop")
    builder = builder.config("spark.driver.extraClassPath", jar)
    builder = builder.config("spark.local.dir", os.path.join(scratch, "local"))
    builder = builder.config("spark.sql.warehouse.dir", os.path.join(scratch, "warehouse"))
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def read(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Writes the rows Hudi sees, meta columns included, to `out`; of those for which `where` holds,
    if it says anything, the `columns`, if any are named."""
    # The table may have been rewritten, or replaced by another one, since the last read.
    spark.catalog.clearCache()
    spark.catalog.refreshByPath(request["path"])
    frame = spark.read.format("hudi").options(**request["options"]).load(request["path"])
    if request["where"]:
        frame = frame.where(request["where"])
    if request["columns"]:
        frame = frame.select(*request["columns"])
    frame.write.parquet(request["out"])
    return {"rows": _count(spark, request["out"]), "schema": json.loads(frame.schema.json())}


def write(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Writes the rows of the Parquet file `input` to the table with Hudi's own writer.

    What it does with them is the option `hoodie.datasource.write.operation`, by default an upsert.
    """
    frame: DataFrame = spark.read.parquet(request["input"])
    writer = frame.write.format("hudi").options(**request["options"])
    writer.mode("append").save(request["path"])
    return {"written": True}


def sql(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Runs the statements, in which the table at `path` is called `target`.

    `views` names Parquet files that the statements may select from, `settings` are in force for
    this request only. The answer is what the last statement returned.
    """
    for name, file in request["views"].items():
        spark.read.parquet(file).createOrReplaceTempView(name)
    for key, value in request["settings"].items():
        spark.conf.set(key, value)
    try:
        # The name stood for another table in the last request; neither drop touches its files.
        spark.sql("drop table if exists target")
        spark.sql(f"create table target using hudi location '{request['path']}'")
        answer: list[Any] = []
        for statement in request["statements"]:
            answer = spark.sql(statement).collect()
        return {"rows": [[str(value) for value in row] for row in answer]}
    finally:
        for key in request["settings"]:
            spark.conf.unset(key)
        for name in request["views"]:
            spark.catalog.dropTempView(name)
        spark.sql("drop table if exists target")


_SERVICE_TYPES = {
    "compaction": "COMPACT",
    "log_compaction": "LOG_COMPACT",
    "clustering": "CLUSTER",
    "clean": "CLEAN",
}


def service(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Schedules or executes a plan, archives, or makes, releases or restores a savepoint."""
    jvm: Any = spark._jvm
    given = jvm.PythonUtils.toScalaMap(request["options"])
    nothing = jvm.org.apache.hudi.common.util.Option.empty()
    client = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient(
        spark._jsparkSession, request["path"], given, jvm.scala.Option.empty()
    )
    at = request["at"]
    try:
        match request["op"], request["service"]:
            case "schedule", name:
                types = jvm.org.apache.hudi.common.model.TableServiceType
                kind = types.valueOf(_SERVICE_TYPES[name])
                at = client.scheduleTableService(nothing, kind).orElse(None)
            case "execute", "compaction":
                client.compact(at, True)
            case "execute", "log_compaction":
                client.logCompact(at, True)
            case "execute", "clustering":
                client.cluster(at, True)
            case "execute", "clean":
                client.clean(False)  # what is planned, and nothing more
            case "run", "archive":
                client.archive()
            case "run", "savepoint":
                client.savepoint(at, "interop", "")
            case "run", "release":
                client.deleteSavepoint(at)
            case "run", "restore":
                client.restoreToSavepoint(at)
            case "run", "rollback":
                client.rollback(at)
            case other:
                raise ValueError(f"no such service: {other}")
        return {"at": at}
    finally:
        client.close()


_locks: list[Any] = []


def lock(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Takes the table lock that the options name, within their waiting time."""
    jvm: Any = spark._jvm
    options = request["options"]
    properties = jvm.org.apache.hudi.common.config.TypedProperties()
    for key, value in options.items():
        properties.setProperty(key, value)
    kind = jvm
    for part in options["hoodie.write.lock.provider"].split("."):
        kind = getattr(kind, part)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    provider = kind(
        jvm.org.apache.hudi.common.config.LockConfiguration(properties),
        jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(hadoop),
    )
    wait_ms = int(options["hoodie.write.lock.wait_time_ms"])
    held = provider.tryLock(wait_ms, jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
    _locks.append(provider)
    return {"held": held}


def lock_file(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """What Hudi's storage-based lock provider makes of a lock object with this content."""
    jvm: Any = spark._jvm
    stream = jvm.java.io.ByteArrayInputStream(request["text"].encode())
    models = jvm.org.apache.hudi.client.transaction.lock.models
    found = models.StorageLockFile.createFromStream(stream, "version")
    return {
        "expired": found.isExpired(),
        "valid_until": found.getValidUntilMs(),
        "owner": found.getOwner(),
    }


def unlock(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Gives back what `lock` took."""
    while _locks:
        provider = _locks.pop()
        provider.unlock()
        provider.close()
    return {"held": False}


def _count(spark: SparkSession, path: str) -> int:
    return spark.read.parquet(path).count()


def reason(failure: Exception) -> str:
    """The failure without its stack frames; those go to the log."""
    lines = str(failure).splitlines()
    frames = ("at ", "... ")
    return "\n".join(line for line in lines if line and not line.strip().startswith(frames))


def serve(spark: SparkSession, requests: TextIO, replies: TextIO) -> None:
    """Answers requests until `stop` or the end of input."""
    commands = {
        "read": read,
        "write": write,
        "sql": sql,
        "service": service,
        "lock": lock,
        "unlock": unlock,
        "lock_file": lock_file,
    }
    for line in requests:
        request = json.loads(line)
        if request["cmd"] == "stop":
            _reply(replies, {"stopped": True})
            return
        try:
            _reply(replies, commands[request["cmd"]](spark, request))
        except Exception as failure:
            traceback.print_exc()
            ended = isinstance(failure, ConnectionError | Py4JNetworkError)
            _reply(replies, {"error": reason(failure) or repr(failure), "ended": ended})
            if ended:
                raise  # without its JVM this process can do nothing more


def _reply(replies: TextIO, answer: dict[str, Any]) -> None:
    replies.write(json.dumps(answer) + "\n")
    replies.flush()


def main(jar: str, scratch: str) -> None:
    """Serves until told to stop."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spark = start_session(jar, scratch)
    _reply(replies, {"ready": True})
    try:
        serve(spark, sys.stdin, replies)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
