"""Arrow tables as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


UNPACKED = "spark.sql.execution.arrow.localRelationThreshold"


def as_frame(rows: pa.Table, session: SparkSession) -> DataFrame:
    """Return rows as a DataFrame that has all of them, with times as they are.

    Left to itself, Spark 4.3 loses the rows behind an empty chunk of a small table, takes times without a zone for
    those of the session's zone, and unpacks tables of up to 48 MiB row by row before anyone has asked for a row. The
    session is a stream's own, so what is set there is seen nowhere else.
    """
    if session.conf.get(UNPACKED, None) != "0":
        session.conf.set(UNPACKED, "0")
    whole = rows.combine_chunks()
    unzoned = {field.name for field in whole.schema if pa.types.is_timestamp(field.type) and field.type.tz is None}
    if not unzoned:
        return session.createDataFrame(whole)
    from pyspark.sql.types import StructField, StructType, TimestampNTZType

    found = session.createDataFrame(whole.slice(0, 0)).schema
    fields = [StructField(field.name, TimestampNTZType()) if field.name in unzoned else field for field in found]
    return session.createDataFrame(whole, StructType(fields))
