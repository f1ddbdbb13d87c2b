"""The Spark pipeline: continuous top-k on streaming DataFrames, and the same queries on batch DataFrames.

`reducers` runs on the executors, `loop` on the driver, once per micro-batch. A new sink is a module of `sinks`.
"""

from skyband.spark.batch.topk import topk
from skyband.spark.control import Control
from skyband.spark.handle import Handle
from skyband.spark.history import kafka_history
from skyband.spark.services import Changes, Frame
from skyband.spark.sinks import Console, Files, Kafka, Memory, Sql
from skyband.spark.sql_text import sql
from skyband.spark.start import start
from skyband.spark.subscribe import SubscriptionHandle, subscribe

__all__ = [
    "Changes", "Console", "Control", "Files", "Frame", "Handle", "Kafka", "Memory", "Sql", "SubscriptionHandle",
    "kafka_history", "sql", "start", "subscribe", "topk",
]  # fmt: skip
