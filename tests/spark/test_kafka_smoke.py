"""Spark and a real Kafka broker understand each other.

Reading all records with a Kafka timestamp in [a, b), in milliseconds, as a batch takes three things:

- `startingTimestamp=a`: in each partition from the first record with a timestamp >= a on;
- `startingOffsetsByTimestampStrategy=latest`: a partition without such a record gives nothing, where the default
  `error` fails the read;
- the filter `a <= timestamp < b` on what is read, and no `endingTimestamp`: that one stops at the first record with
  a timestamp >= b, and what is older but was appended behind it is lost. Where disorder has a limit,
  `endingTimestamp = b + limit` is safe and reads less.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.kafka import Broker

pytestmark = pytest.mark.spark

START = 1_700_000_000_000  # ms


def reader(spark: Any, kafka: Broker, topic: str, **options: Any) -> Any:
    found = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.servers).option("subscribe", topic)
    return found.options(**options)


def seconds(frame: Any) -> list[tuple[int, int]]:
    """Partition and seconds since START of every record."""
    rows = frame.selectExpr("partition", "unix_millis(timestamp) AS at").collect()
    return sorted((row.partition, (row.at - START) // 1000) for row in rows)


def test_a_stream_reads_what_spark_wrote(spark: Any, kafka: Broker, tmp_path: Path) -> None:
    kafka.create_topic("written", partitions=2)
    events = spark.range(1000).selectExpr("to_json(struct(id, id * 0.5D AS score)) AS value")
    events.write.format("kafka").option("kafka.bootstrap.servers", kafka.servers).option("topic", "written").save()

    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.servers)
    stream = source.option("subscribe", "written").option("startingOffsets", "earliest").load()
    parsed = stream.selectExpr("from_json(string(value), 'id bigint, score double') AS event").select("event.*")
    target = parsed.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = target.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)

    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.id, row.score) for row in rows) == [(i, i * 0.5) for i in range(1000)]


def test_a_record_keeps_its_timestamp(spark: Any, kafka: Broker) -> None:
    kafka.create_topic("stamped", partitions=2)
    kafka.produce(spark, "stamped", [(START, {"id": "a"}), (1, {"id": "b"})])
    kafka.produce(spark, "stamped", [(START * 2, {"id": "c"})], partition=1)
    assert kafka.consume(spark, "stamped") == [
        (0, 0, START, {"id": "a"}),
        (0, 1, 1, {"id": "b"}),
        (1, 0, START * 2, {"id": "c"}),
    ]


def test_records_of_a_range_of_time(spark: Any, kafka: Broker) -> None:
    kafka.create_topic("ranges", partitions=2)
    disordered = [0, 1, 2, 3, 5, 8, 6, 4, 7, 9]
    kafka.produce(spark, "ranges", [(START + s * 1000, {"s": s}) for s in disordered])
    kafka.produce(spark, "ranges", [(START + s * 1000, {"s": s}) for s in range(3)], partition=1)  # ends early
    a, b = START + 4000, START + 8000
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    within = f"timestamp >= timestamp_millis({a}) AND timestamp < timestamp_millis({b})"

    whole = reader(spark, kafka, "ranges", startingTimestamp=a, **latest).load()
    assert seconds(whole.where(within)) == [(0, 4), (0, 5), (0, 6), (0, 7)]

    # 4, 6 and 7 come after 8 in their partition.
    cut = reader(spark, kafka, "ranges", startingTimestamp=a, endingTimestamp=b, **latest).load()
    assert seconds(cut) == [(0, 5)]

    # Nothing is more than 4 s behind what came before it.
    slack = reader(spark, kafka, "ranges", startingTimestamp=a, endingTimestamp=b + 4000, **latest).load()
    assert seconds(slack.where(within)) == [(0, 4), (0, 5), (0, 6), (0, 7)]


def test_a_partition_that_ends_before_the_range_fails_a_read_without_strategy(spark: Any, kafka: Broker) -> None:
    kafka.create_topic("short")
    kafka.produce(spark, "short", [(START, {"s": 0})])
    after = {"startingTimestamp": START + 1000}
    with pytest.raises(Exception, match="No offset matched"):
        reader(spark, kafka, "short", **after).load().collect()
    assert seconds(reader(spark, kafka, "short", **after, startingOffsetsByTimestampStrategy="latest").load()) == []
