"""A real Kafka broker for tests, from the jars that `scripts/kafka-jars` fetches."""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

CACHE = Path(os.environ.get("SKYBAND_KAFKA_CACHE") or Path(__file__).parents[2] / ".cache" / "kafka")

# Times in tests are long ago or far ahead: nothing expires, and no time is refused.
SETTINGS = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
log.dirs={folder}/log
log.retention.ms=-1
log.message.timestamp.after.max.ms=9223372036854775807
"""


def broker_jars() -> list[Path]:
    """Jars of the broker and its tools: none if they were not fetched."""
    return sorted(CACHE.glob("broker/*.jar"))


def connector_jars() -> list[Path]:
    """Jars that the installed Spark needs to speak to Kafka: none if they were not fetched."""
    try:
        spark = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return []
    return sorted(CACHE.glob(f"connector-{spark}/*.jar"))


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


class Broker:
    """One Kafka node, which is broker and controller, while the context lasts.

    Parameters
    ----------
    folder
        An empty folder for its data, settings and log.
    """

    def __init__(self, folder: Path) -> None:
        port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        self._log = folder / "broker.log"
        self._settings = folder / "server.properties"
        self._settings.write_text(SETTINGS.format(port=port, controller=controller, folder=folder))

    def __enter__(self) -> Self:
        cluster = "c2t5YmFuZC1jbHVzdGVyMQ"  # any 16 bytes in base 64
        self._run("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", str(self._settings))
        with self._log.open("w") as log:
            command = self._java("kafka.Kafka", str(self._settings))
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        # Its input ends when we close it, and also when this process dies in whatever way.
        watch = ["sh", "-c", 'cat; kill "$0"', str(self._process.pid)]
        self._watch = subprocess.Popen(watch, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            self._wait(seconds=120)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.communicate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Make an empty topic."""
        what = ("--create", "--topic", topic, "--partitions", str(partitions))
        self._run("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.servers, *what)

    def produce(
        self, spark: Any, topic: str, events: Iterable[tuple[int, Mapping[str, Any]]], partition: int = 0
    ) -> None:
        """Append events, each with its Kafka timestamp in milliseconds, as JSON.

        Through Kafka's own client in Spark's JVM, since Spark's sink stamps every record with the time of writing.
        """
        kafka = spark._jvm.org.apache.kafka.clients.producer
        serializer = "org.apache.kafka.common.serialization.StringSerializer"
        settings = {"bootstrap.servers": self.servers, "key.serializer": serializer, "value.serializer": serializer}
        producer = kafka.KafkaProducer(spark._jvm.java.util.HashMap(settings))
        try:
            sent = [
                producer.send(kafka.ProducerRecord(topic, partition, timestamp, None, json.dumps(event)))
                for timestamp, event in events
            ]
            for each in sent:
                each.get()  # raises what went wrong
        finally:
            producer.close()

    def consume(self, spark: Any, topic: str) -> list[Any]:
        """Give all records of a topic: partition, offset, timestamp (in milliseconds) and value (parsed JSON)."""
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers).option("subscribe", topic)
        rows = reader.load().selectExpr("partition", "offset", "unix_millis(timestamp)", "string(value)").collect()
        return sorted((partition, offset, at, json.loads(value)) for partition, offset, at, value in rows)

    def _java(self, main: str, *arguments: str) -> list[str]:
        jars = os.pathsep.join(map(str, broker_jars()))
        return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", jars, main, *arguments]  # the level starts sooner

    def _run(self, main: str, *arguments: str) -> None:
        done = subprocess.run(self._java(main, *arguments), capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(f"{main} failed: {done.stdout}{done.stderr}")

    def _wait(self, seconds: float) -> None:
        """Wait until the broker takes requests, which its log tells and an open port does not."""
        deadline = time.monotonic() + seconds
        while "Kafka Server started" not in self._log.read_text():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Kafka did not start within {seconds} s: {self._log.read_text()[-4000:]}")
            time.sleep(0.1)
