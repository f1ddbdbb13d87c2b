"""How long an answer takes: from an event written to Kafka until the sink has the answer that it closes.

Producer and stream share a machine and its clock. An event's time is when it is written, so a window may be answered
as soon as the watermark's delay after its end has passed; what an answer takes beyond that is its latency.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time as clock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import Row, Timing
from benchmarks.spark.spark_baselines import window
from skyband.queries.query import Query
from skyband.spark import start
from skyband.times import SECOND
from skyband.windows import Window

if TYPE_CHECKING:
    from benchmarks.spark import Setting

logger = logging.getLogger(__name__)
RATE = 200  # events a second
PERCENTILES = (50, 99)
QUERY = Query("one", k=10, score="score", window=Window(10 * SECOND, slide=SECOND))
DELAY = SECOND
SCHEMA = "time timestamp, id bigint, score double"
WARM = 10  # seconds of events before those that count: in the first batches Spark compiles everything
Note = Callable[[Any, Any], None]


def latency(setting: Setting) -> Iterator[Row]:
    """Our stream and Spark's own sliding window, each from a topic of its own."""
    from tests.spark.kafka import Broker, broker_jars, connector_jars

    if not (broker_jars() and connector_jars()):
        logger.warning("no latency is measured: Kafka's jars are missing; scripts/kafka-jars fetches them, with Maven")
        return
    with Broker(Path(tempfile.mkdtemp(dir=setting.folder))) as broker:
        for way, run in (("skyband", _ours), ("spark window()", _theirs)):
            found = _measured(setting, broker, way.split()[0], run)
            for percentile in PERCENTILES:
                row = Timing([float(np.percentile(found, percentile))])
                yield row.row(
                    "latency", "percentile", percentile, way, RATE * setting.scale.seconds, answers=len(found)
                )


def _measured(setting: Setting, broker: Any, topic: str, run: Callable[[Any, str, Note], Any]) -> list[float]:
    """Return the latencies of the answers that one way gives, in seconds."""
    broker.create_topic(topic)
    source = setting.spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.servers)
    records = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
    events = records.selectExpr(f"from_json(string(value), '{SCHEMA}') AS event").select("event.*")
    seen: dict[int, float] = {}

    def note(answers: Any, _batch: Any) -> None:
        now = clock.time()
        for end in answers:
            seen.setdefault(int(end), now)

    query = run(events, tempfile.mkdtemp(dir=setting.folder), note)
    try:
        _produce(setting.spark, broker.servers, topic, WARM)
        query.processAllAvailable()
        began = clock.time()
        _produce(setting.spark, broker.servers, topic, setting.scale.seconds)
        query.processAllAvailable()
    finally:
        query.stop()
    due = {end: (end + DELAY) / SECOND for end in seen}
    return [now - due[end] for end, now in seen.items() if due[end] > began]


def _ours(events: Any, folder: str, note: Note) -> Any:
    class Ends:
        """A sink that notes when the answers of each window come."""

        def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:  # noqa: ARG002 - as sinks do
            note(answers["window_end"].unique().cast(pa.int64()).to_pylist(), batch_id)

    return start(events, QUERY, time="time", id="id", watermark=DELAY, sink=Ends(), checkpoint=folder)


def _theirs(events: Any, folder: str, note: Note) -> Any:
    rows = window(events, QUERY, DELAY)

    def write(batch: Any, number: int) -> None:
        found = batch.selectExpr(f"unix_micros(start) + {QUERY.window.size} AS end").toArrow()
        note(found["end"].unique().to_pylist(), number)

    return rows.writeStream.option("checkpointLocation", folder).foreachBatch(write).start()


def _produce(spark: Any, servers: str, topic: str, seconds: int) -> None:
    """Write events at a steady rate, each with the time at which it is written."""
    kafka = spark._jvm.org.apache.kafka.clients.producer
    serializer = "org.apache.kafka.common.serialization.StringSerializer"
    settings = {"bootstrap.servers": servers, "key.serializer": serializer, "value.serializer": serializer}
    producer = kafka.KafkaProducer(spark._jvm.java.util.HashMap(settings))
    rng, began = np.random.default_rng(7), clock.time()
    try:
        for number in range(RATE * seconds):
            ahead = began + number / RATE - clock.time()
            if ahead > 0:
                clock.sleep(ahead)
            moment = np.datetime64(round(clock.time() * SECOND), "us").astype(str) + "Z"
            event = {"time": moment, "id": number, "score": float(rng.random())}
            producer.send(kafka.ProducerRecord(topic, json.dumps(event)))
    finally:
        producer.close()
