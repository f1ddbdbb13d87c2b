"""A real broker: JSON events in, answers out, a query that comes later, a restart, the past by timestamps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skyband as sb
from tests.spark.kafka import Broker

pytestmark = pytest.mark.spark

START = 1_700_000_000  # s
SCHEMA = "ts timestamp, symbol string, price double, volume bigint"
TOP = sb.Query("top", k=3, score="price * volume", window=sb.Window("20 seconds", slide="10 seconds"))
LONG = sb.Query("long", k=5, score="price", window=sb.Window("60 seconds", slide="10 seconds"), where="volume > 2")


def parse(records: Any) -> Any:
    return records.selectExpr(f"from_json(string(value), '{SCHEMA}') AS event").select("event.*")


def trades(seed: int, first: int, seconds: int) -> list[tuple[int, dict[str, Any]]]:
    """Ten trades a second with their Kafka timestamps, slightly out of order."""
    rng = np.random.default_rng(seed)
    found = []
    for n in range(seconds * 10):
        at = (START + first) * 1_000 + n * 100 + int(rng.integers(-400, 400))
        time = np.datetime64(at, "ms").astype(str) + "Z"
        event = {
            "ts": time,
            "symbol": f"s{rng.integers(9)}",
            "price": float(rng.random()),
            "volume": int(rng.integers(9)),
        }
        found.append((at, event))
    return found


def stream(spark: Any, kafka: Broker, topic: str) -> Any:
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.servers)
    return parse(source.option("subscribe", topic).option("startingOffsets", "earliest").load())


def told(kafka: Broker, spark: Any, topic: str) -> dict[str, dict[str, Any]]:
    """The last record of each key, as a compacted topic keeps it."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.servers).option("subscribe", topic)
    rows = reader.load().orderBy("partition", "offset").selectExpr("string(key) AS key", "string(value) AS value")
    return {row.key: json.loads(row.value) for row in rows.collect()}


def shown(records: dict[str, dict[str, Any]], query: str) -> list[tuple[Any, ...]]:
    found = [value for value in records.values() if value["query"] == query]
    return sorted((v["window_end"], v["rank"], v["id"], v["score"]) for v in found)


def test_from_kafka_to_kafka(spark: Any, kafka: Broker, tmp_path: Path) -> None:
    kafka.create_topic("trades", partitions=2)
    kafka.create_topic("answers")
    sent = [trades(seed, first, 60) for seed, first in enumerate((0, 60, 120))]

    def run() -> Any:
        handle = sb.spark.start(
            stream(spark, kafka, "trades"), TOP, time="ts", id="symbol", watermark="1 second",
            sink=sb.spark.Kafka("answers", kafka.servers), checkpoint=tmp_path / "checkpoint",
            history=sb.spark.kafka_history("trades", kafka.servers, parse), trigger={"availableNow": True},
        )  # fmt: skip
        assert handle.awaitTermination(180)
        return handle

    for part, events in enumerate(sent):
        for partition in (0, 1):
            kafka.produce(spark, "trades", events[partition::2], partition)
        handle = run()
        if part == 0:
            handle.register(LONG)  # its first windows reach back to what has gone by
        if part == 1:  # the last batch again, as after a crash before Spark noted it
            commits = tmp_path / "checkpoint" / "commits"
            last = max((file.name for file in commits.iterdir() if file.name.isdigit()), key=int)
            (commits / last).unlink()
            (commits / f".{last}.crc").unlink()
    records = told(kafka, spark, "answers")

    rows = [event for events in sent for _, event in events]
    answers = list(sb.run([TOP, LONG], rows, time="ts", id="symbol", watermark="1 second"))
    truth = {
        (a.query, a.end.timestamp()): [(row.rank, row.id, row.score) for row in a.rows]  # type: ignore[union-attr]
        for a in answers
    }
    found: dict[tuple[str, float], list[tuple[Any, ...]]] = {}
    exact = {}
    for value in records.values():
        end = np.datetime64(value["window_end"].rstrip("Z"), "ms").astype(int) / 1_000
        found.setdefault((value["query"], end), []).append((value["rank"], value["id"], value["score"]))
        exact[value["query"], end] = value["exact"]
    tops = [key for key in found if key[0] == "top"]
    assert len(tops) >= 17
    for key in tops:
        assert sorted(found[key]) == truth[key]
    longs = [key for key in found if key[0] == "long" and exact[key]]
    assert min(end for _, end in longs) <= START + 130, "filled from the past, not warmed up for a minute"
    for key in longs:
        assert sorted(found[key]) == truth[key]
    states = {entry["name"]: entry["state"] for entry in handle.queries}
    assert states == {"top": "active", "long": "active"}
