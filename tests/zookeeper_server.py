"""A real ZooKeeper, and Apache Curator beside it, from the jars that PySpark brings."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from kazoo.client import KazooClient
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lentic.spark.session import ensure_java

START_TIMEOUT_S = 120
_JARS = Path(pyspark.__file__).parent / "jars"
_JVM = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


class ZooKeeperServer:
    """One server on a loopback port, with its data in `folder`; sessions may be as short as 0.4 s.

    `kill` and `start` again are a power cut: what was answered before is there afterwards.
    """

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        self._config = folder / "zoo.cfg"
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.hosts = f"127.0.0.1:{port}"
        settings = {
            "tickTime": 200,
            "maxSessionTimeout": 60_000,
            "dataDir": folder / "data",
            "clientPortAddress": "127.0.0.1",
            "clientPort": port,
            "admin.enableServer": "false",
        }
        self._config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start(self) -> None:
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [java(), *_JVM, "-Dzookeeper.preAllocSize=64", "-cp", f"{_JARS}/*", main]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, self._config], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        with self.client():  # answers, so it is up
            pass

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @contextmanager
    def client(self, session: tuple[int, bytes] | None = None) -> Iterator[KazooClient]:
        """A client of the test's own, to look what lies there; its session ends afterwards."""
        client = KazooClient(
            self.hosts,
            client_id=session,
            connection_retry={"max_tries": -1, "max_delay": 0.5},
        )
        try:
            assert client.start_async().wait(START_TIMEOUT_S), self._log.read_text()[-3000:]
            yield client
        finally:
            client.stop()
            client.close()


class Curator:
    """Apache Curator in a JVM of its own. One at a time has the word: it is one Java thread."""

    def __init__(self, gateway: JavaGateway, hosts: str) -> None:
        self._packages = gateway.jvm.org.apache.curator
        self._client = self._packages.framework.CuratorFrameworkFactory.newClient(
            hosts, self._packages.retry.ExponentialBackoffRetry(100, 5)
        )
        self._client.start()
        self._millis = gateway.jvm.java.util.concurrent.TimeUnit.MILLISECONDS

    def mutex(self, path: str) -> Any:
        return self._packages.framework.recipes.locks.InterProcessMutex(self._client, path)

    def acquire(self, mutex: Any, timeout_ms: int) -> bool:
        acquired: bool = mutex.acquire(timeout_ms, self._millis)
        return acquired

    def sort_key(self, name: str) -> str:
        """What Curator's mutex compares of a name."""
        driver = self._packages.framework.recipes.locks.StandardLockInternalsDriver
        key: str = driver.standardFixForSorting(name, "lock-")
        return key

    def close(self) -> None:
        self._client.close()


@contextmanager
def run_curator(hosts: str) -> Iterator[Curator]:
    port, token, process = launch_gateway(
        jarpath=str(next(_JARS.glob("py4j-*.jar"))),
        classpath=f"{_JARS}/*",
        java_path=java(),
        javaopts=_JVM,
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        curator = Curator(gateway, hosts)
        yield curator
        curator.close()
    finally:
        gateway.shutdown()
        process.communicate(timeout=START_TIMEOUT_S)


def java() -> str:
    """The Java that Spark would run on."""
    ensure_java()
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    assert found, "ensure_java found one"
    return found
