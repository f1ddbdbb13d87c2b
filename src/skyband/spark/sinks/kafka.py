"""Rows to a Kafka topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.errors import InputError
from skyband.files import durable
from skyband.queries.query import UNIQUE_RANK
from skyband.spark.columns import quoted
from skyband.spark.sinks.rows import BATCH, NUMBER, as_frame, holds_answers, keyed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_JSON = {"timeZone": "UTC", "timestampFormat": _MOMENT + "XXX", "timestampNTZFormat": _MOMENT}


class Kafka:
    """A topic with one message a row: its key as `records` says, its value the row as JSON.

    A topic cannot be written in one step, and a replayed batch sends its messages again, with the same keys. So
    each row is there at least once, and exactly once for who keeps the last value of a key: a compacted topic, a
    table that is upserted. Late and rejected rows have the key ``batch_id|row_number``, both also in the value.

    Parameters
    ----------
    topic
        Where to send.
    servers
        Brokers to ask first, such as ``"broker-1:9092,broker-2:9092"``.
    options
        Further options of Spark's Kafka writer, such as ``{"kafka.compression.type": "zstd"}``.
    """

    def __init__(self, topic: str, servers: str, options: Mapping[str, str] | None = None) -> None:
        self.topic = topic
        self.servers = servers
        self.options = dict(options or {})

    def __repr__(self) -> str:  # without the options: there may be passwords among them
        return f"Kafka({self.topic!r}, {self.servers!r})"

    def write(self, answers: pa.Table, batch_id: int, session: SparkSession) -> None:
        """Send the rows of a batch."""
        from pyspark.errors import PySparkException

        rows = answers if holds_answers(answers.column_names) else keyed(answers, batch_id)[0]
        messages = records(as_frame(rows, session))
        options = {**self.options, "kafka.bootstrap.servers": self.servers, "topic": self.topic}
        try:
            durable.step("send", _send, messages, options)
        except PySparkException as error:
            if "Failed to find data source: kafka" not in str(error):
                raise
            msg = (
                "Spark has no Kafka connector; start the session with it: SparkSession.builder.config("
                f"'spark.jars.packages', 'org.apache.spark:spark-sql-kafka-0-10_2.13:{session.version}')"
            )
            raise InputError(msg) from None


def _send(messages: DataFrame, options: Mapping[str, str]) -> None:
    messages.write.format("kafka").options(**options).save()


def records(rows: DataFrame) -> DataFrame:
    """Return rows as messages: texts `key` and `value`.

    The key is ``query|window end|rank``, with ``|partition`` behind it where there is one, such as
    ``volatile|2024-05-01T10:00:00.000000Z|1|NYSE``. Of changes, what left has ``left`` and its last rank for a rank:
    ``left 3``. Rows of a set have no rank; they have ``id`` and their id there: ``id SPY``. With ties ranks repeat, so
    rows have their numbers there: ``row 4``, ``left row 3``. A ``|`` in the query's name is written ``%7C`` and a ``%``
    there ``%25``, so no two keys are alike. The value leaves out what is NULL; times are in UTC.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    value = F.to_json(F.struct(*(F.col(quoted(name)) for name in rows.columns)), _JSON)
    named = rows.select(value.alias("value"))

    def text(name: str) -> Column:  # as JSON has it: so times do not depend on the session's time zone
        return F.get_json_object("value", f"$.{name}")

    if not holds_answers(rows.columns):
        parts = [text(BATCH), text(NUMBER)]
    else:
        query = F.replace(F.replace(text("query"), F.lit("%"), F.lit("%25")), F.lit("|"), F.lit("%7C"))
        number = F.concat(F.lit("row "), text(UNIQUE_RANK))  # NULL without ties
        stays = F.when(text("rank").isNotNull(), F.coalesce(number, text("rank")))
        left = F.concat(F.lit("left "), F.coalesce(number, text("previous_rank")))
        place = F.coalesce(stays, left, F.concat(F.lit("id "), text("id")))
        parts = [query, text("window_end"), place, text("partition")]
    return named.select(F.concat_ws("|", *parts).alias("key"), "value")
