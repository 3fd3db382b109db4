"""Environments and jars for the peers, outside the source tree: `$LENTIC_CACHE` or ~/.cache/lentic.

    peer-NAME/             virtual environment, packages checked by hash
    peer-NAME/ready        written last; names the pins it was made from
    peers.lock             held while anything here is checked or made
    FILE.jar               appears by rename, its SHA-256 checked on every use

What is not whole is made anew. Packages and jars come from wherever pip and Maven (or, without
Maven, Spark's own Ivy) are told to look; where that is out of reach, `PeerUnavailable` says so.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lentic.errors import ConfigError
from lentic.spark.session import ensure_java
from tests.interop.setup_hudi import clean_environment, default_cache

_HERE = Path(__file__).resolve().parent
# Building PySpark from its archive takes the same tools for every version.
_BUILD_PINS = _HERE.parent / "tests" / "interop" / "hudi-build-requirements.txt"
_STEP_TIMEOUT_S = 1800

_RESOLVE_WITH_IVY = """
import sys
from pyspark.sql import SparkSession
package, folder = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.jars.ivy", folder)
builder.config("spark.jars.packages", package).getOrCreate().stop()
"""


class PeerUnavailable(Exception):
    """A peer cannot be run on this machine; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact of a Maven repository."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


def ensure_environment(name: str) -> Path:
    """The interpreter of an environment with what `peer-NAME-requirements.txt` pins."""
    pins = _HERE / f"peer-{name}-requirements.txt"
    with _cache() as root:
        home = root / f"peer-{name}"
        python, ready = home / "bin" / "python", home / "ready"
        digest = hashlib.sha256(_BUILD_PINS.read_bytes() + pins.read_bytes()).hexdigest()
        if ready.is_file() and ready.read_text() == digest and _runs(python):
            return python
        shutil.rmtree(home, ignore_errors=True)
        _run("making the virtual environment", [sys.executable, "-m", "venv", home])
        _pip(python, "--only-binary", ":all:", "-r", _BUILD_PINS)
        _pip(python, "--no-build-isolation", "-r", pins)
        ready.write_text(digest)
        return python


def ensure_jars(jars: Sequence[Jar], python: Path) -> list[Path]:
    """The jars, fetched first where they are not there yet; `python` is one with PySpark."""
    with _cache() as root:
        return [_ensure_jar(root, jar, python) for jar in jars]


def ensure_java_for_peers() -> None:
    """A Java that can run Spark, in `JAVA_HOME` or `PATH` of this process and its children."""
    try:
        ensure_java()
    except ConfigError as error:
        raise PeerUnavailable(error.what) from error


@contextmanager
def _cache() -> Iterator[Path]:
    """The folder for all this, for one process at a time."""
    root = default_cache()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / "peers.lock").open("a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield root
    except OSError as failure:
        raise PeerUnavailable(f"set-up in {root} failed: {failure}") from failure


def _ensure_jar(root: Path, jar: Jar, python: Path) -> Path:
    kept = root / jar.file_name
    if _is_whole(kept, jar):
        return kept
    with tempfile.TemporaryDirectory(dir=root, prefix="peers-download-") as folder:
        found = _download(Path(folder), jar, python)
        if not _is_whole(found, jar):
            raise PeerUnavailable(f"{jar.file_name} was fetched, but its SHA-256 is not the pinned")
        found.replace(kept)
    return kept


def _download(folder: Path, jar: Jar, python: Path) -> Path:
    what = f"fetching {jar.file_name}"
    if maven := shutil.which("mvn"):
        copy = ["dependency:copy", f"-Dartifact={jar.coordinates}", f"-DoutputDirectory={folder}"]
        _run(what, [maven, "-q", "-B", "-Dstyle.color=never", *copy], folder)
        return folder / jar.file_name
    ivy = folder / "ivy"
    _run(what, [python, "-I", "-c", _RESOLVE_WITH_IVY, jar.coordinates, ivy], folder)
    return ivy / "jars" / f"{jar.group}_{jar.file_name}"


def _is_whole(path: Path, jar: Jar) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == jar.sha256


def _runs(python: Path) -> bool:
    try:
        return subprocess.run([python, "-I", "-c", ""], capture_output=True).returncode == 0
    except OSError:
        return False


def _pip(python: Path, *arguments: str | Path) -> None:
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--require-hashes"]
    _run("installing packages", [python, "-I", "-m", "pip", "install", *quiet, *arguments])


def _run(what: str, command: Sequence[str | Path], cwd: Path | None = None) -> None:
    """A failure becomes one line: `what`, and the first line that speaks of an error."""
    env = clean_environment() | {"SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_STEP_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as failure:
        raise PeerUnavailable(f"{what} took more than {_STEP_TIMEOUT_S} s") from failure
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"error\b.*\w", line, re.IGNORECASE)]
        raise PeerUnavailable(f"{what} failed: {(errors or lines or ['it said nothing'])[0][:300]}")


def peer_environment(java_home: Path | None = None) -> dict[str, str]:
    """Variables for a peer: those of this process that would not bend it, and this repository."""
    env = clean_environment() | {"PYTHONPATH": str(_HERE.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    if java_home is not None:
        env["JAVA_HOME"] = str(java_home)
    elif home := os.environ.get("JAVA_HOME"):
        env["JAVA_HOME"] = home
    return env
