"""The Spark pipeline: continuous top-k on streaming DataFrames, and the same queries on batch DataFrames."""

from skyband.spark.changes import Changes
from skyband.spark.control import Control
from skyband.spark.frame import Frame
from skyband.spark.handle import Handle
from skyband.spark.history import kafka_history
from skyband.spark.sinks import Console, Files, Kafka, Memory, Sql
from skyband.spark.start import start
from skyband.spark.subscribe import Followed, subscribe
from skyband.spark.topk import topk

__all__ = [
    "Changes",
    "Console",
    "Control",
    "Files",
    "Followed",
    "Frame",
    "Handle",
    "Kafka",
    "Memory",
    "Sql",
    "kafka_history",
    "start",
    "subscribe",
    "topk",
]
