"""A Spark cluster on one machine: a master and two workers, each with one executor of one core.

The workers have addresses of their own (127.0.0.1 and 127.0.0.2), because Spark starts a copy of a
slow task on another host only. Everything the cluster starts carries its mark.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from lentic.spark.session import ensure_java
from tests.faults.driver import Driver
from tests.faults.processes import MARK, list_executors, list_marked, send
from tests.faults.waiting import until

HOSTS = ("127.0.0.1", "127.0.0.2")
_ROOT = Path(__file__).resolve().parents[2]
_SPARK = Path(pyspark.__file__).parent
_REGISTERED = "Successfully registered with master"
_SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": _SMALL_JVM,
    "spark.executor.extraJavaOptions": _SMALL_JVM,
    "spark.executor.memory": "700m",
    "spark.executor.cores": "1",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join((str(_ROOT / "src"), str(_ROOT))),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.locality.wait": "0s",
    # A lost executor is noticed within seconds, and what it was doing is tried often enough.
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeoutInterval": "1s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "6s",
    "spark.shuffle.io.connectionTimeout": "6s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "200ms",
    "spark.task.maxFailures": "4",
    "spark.stage.maxConsecutiveAttempts": "16",
    "spark.python.task.killTimeout": "500ms",
}
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.25",
}


@dataclass(slots=True)
class Cluster:
    """A running cluster, and its one driver."""

    url: str
    mark: str
    _driver: Driver | None = None
    _is_speculating: bool = field(default=False)

    def driver(self, *, speculation: bool = False) -> Driver:
        """The driver, started anew if it is to speculate and does not, or the other way round."""
        if self._driver is None or self._is_speculating != speculation:
            self.end_driver()
            more = _SPECULATION if speculation else {}
            self._driver = Driver(self.mark, {"spark.master": self.url, **_SETTINGS, **more})
            self._is_speculating = speculation
        self.wait_until_whole()
        return self._driver

    def end_driver(self) -> None:
        """End the driver, if there is one, and with it its executors."""
        if self._driver is not None:
            self._driver.end()
            self._driver = None
            until(lambda: not list_executors(self.mark), "executors to end with their driver")

    def wait_until_whole(self) -> None:
        """Wait until there is an executor on every worker."""
        assert self._driver is not None
        driver = self._driver
        until(lambda: driver.call(_count_executors) == len(HOSTS), "all executors to be there")


def _count_executors(spark: pyspark.sql.SparkSession) -> int:
    known = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return len(known) - 1  # the driver is among them


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    """A cluster that keeps all its files below `directory`, and of which no process stays."""
    mark = str(uuid.uuid4())
    before = os.environ.get("JAVA_HOME")
    ensure_java()
    environment = {
        **os.environ,
        MARK: mark,
        "SPARK_HOME": str(_SPARK),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _SMALL_JVM,
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_LOG_DIR": str(directory),
        "PYTHONPATH": "",
    }
    cluster: Cluster | None = None
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> Path:
        log = directory / f"{name}.log"
        with log.open("wb") as output:
            command = [str(_SPARK / "bin" / "spark-class"), *words]
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(process)
        return log

    try:
        port = _free_port()
        url = f"spark://{HOSTS[0]}:{port}"
        start(
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", HOSTS[0], "--port", str(port), "--webui-port", "0"),
        )
        logs = [
            start(
                f"worker-{host}",
                "org.apache.spark.deploy.worker.Worker",
                *("--host", host, "--webui-port", "0", "--cores", "1", "--memory", "700m"),
                *("--work-dir", str(directory / host), url),
            )
            for host in HOSTS
        ]
        until(lambda: all(_REGISTERED in log.read_text("utf-8") for log in logs), "all workers")
        cluster = Cluster(url, mark)
        yield cluster
    finally:
        if cluster is not None:
            with suppress(AssertionError):
                cluster.end_driver()
        until(lambda: not send(list_marked(mark), signal.SIGKILL), "the cluster's processes to end")
        for process in started:
            process.wait()
        if before is None:
            os.environ.pop("JAVA_HOME", None)
        else:
            os.environ["JAVA_HOME"] = before


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOSTS[0], 0))
        port: int = probe.getsockname()[1]
        return port
