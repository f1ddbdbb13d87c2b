"""Rows to a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.spark.sinks.frames import as_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Function:
    """Calls a function with each batch, as Spark's `foreachBatch` does.

    A replayed batch comes with the same number again: it is the function that has to replace what it wrote before.

    Parameters
    ----------
    function
        Takes a DataFrame and the batch's number.
    """

    def __init__(self, function: Callable[[Any, int], object]) -> None:
        self.function = function

    def write(self, answers: pa.Table, batch_id: int, session: SparkSession) -> None:
        """Call the function."""
        self.function(as_frame(answers, session), batch_id)
