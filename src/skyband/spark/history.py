"""A stream's past, for queries that come later and need more than is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from skyband.errors import InputError
from skyband.times import Duration, parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

History = Callable[["SparkSession", datetime, datetime], "DataFrame"]
"""Returns the stream's events from one moment up to another, or more than these."""


def as_history(given: object) -> History | None:
    """Return the past that is meant: a batch DataFrame, or a function that reads an interval of it."""
    if given is None:
        return None
    if getattr(given, "isStreaming", False):
        msg = "history is a streaming DataFrame; give a batch DataFrame of the same events, made with spark.read"
        raise InputError(msg)
    if hasattr(given, "isStreaming"):
        return lambda _session, _start, _end: given
    if not callable(given):
        msg = (
            f"history is of type {type(given).__name__}; give a batch DataFrame, or a function of a session and two "
            "moments that returns one"
        )
        raise InputError(msg)
    return given


def kafka_history(
    topic: str,
    servers: str,
    parse: Callable[[DataFrame], DataFrame],
    *,
    slack: Duration = "1 minute",
    options: Mapping[str, str] | None = None,
) -> History:
    """Read a stream's past from Kafka, by the timestamps of its records.

    Parameters
    ----------
    topic, servers
        Where the stream's records are.
    parse
        Makes the stream's columns from Kafka's (`key`, `value`, `timestamp`, ...): the same function that made the
        stream.
    slack
        How far a record's own timestamp may be from the event time in it.
    options
        More options of Spark's Kafka reader, such as those for security.

    Examples
    --------
    >>> def parse(records):
    ...     return records.selectExpr("from_json(string(value), 'ts timestamp, id string') AS event").select("event.*")
    >>> past = kafka_history("trades", "localhost:9092", parse)
    """
    around = timedelta(microseconds=parse_duration(slack, "slack"))

    def read(session: SparkSession, start: datetime, end: datetime) -> DataFrame:
        low, high = _milliseconds(start, -around), _milliseconds(end, around)
        reader: Any = session.read.format("kafka").options(**(options or {}))
        reader = reader.option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        # A partition without a record that late has nothing to give. There is no ending timestamp: Spark would stop
        # at the first later record, and what comes behind it out of order would be lost.
        reader = reader.option("startingTimestamp", low).option("startingOffsetsByTimestampStrategy", "latest")
        return parse(reader.load().where(f"unix_millis(timestamp) BETWEEN {low}L AND {high}L"))

    return read


def _milliseconds(moment: datetime, away: timedelta) -> int:
    """Return a moment, moved, as Kafka counts it; its clock begins in 1970."""
    return max(0, int(moment.timestamp() * 1_000) + int(away.total_seconds() * 1_000))
