"""Where a stream's answers go, and its late and rejected rows: each micro-batch once, however often it is replayed."""

from skyband.spark.sinks.base import Sink, as_sink
from skyband.spark.sinks.console import Console
from skyband.spark.sinks.files import Files
from skyband.spark.sinks.kafka import Kafka
from skyband.spark.sinks.memory import Memory
from skyband.spark.sinks.sql import Sql

__all__ = ["Console", "Files", "Kafka", "Memory", "Sink", "Sql", "as_sink"]
