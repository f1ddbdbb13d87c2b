"""What a sink is, and what may be given for one."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from skyband.errors import InputError
from skyband.files import durable
from skyband.spark.sinks.console import Console
from skyband.spark.sinks.files import Files
from skyband.spark.sinks.memory import Memory
from skyband.spark.sinks.rows import as_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALLOWED = (
    "'memory', 'console', a folder, a function of (answers, batch_id), "
    "or a sink such as Files(folder), Kafka(topic, servers) or Sql(url)"
)


class Sink(Protocol):
    """Takes the rows of one micro-batch after the other.

    A sink is pickled before its first use where Spark runs elsewhere (Spark Connect), so it opens nothing before
    the first `write`.
    """

    def write(self, answers: pa.Table, batch_id: int, session: SparkSession) -> None:
        """Write the rows of a batch, in place of those that an earlier try of the same batch may have written.

        What cannot be written raises: then Spark fails the batch, and a restart replays it.

        Parameters
        ----------
        answers
            Answers as ``Answers.table(quality=True)`` gives them, each window at most once; or late or rejected
            rows with the columns of the stream. Columns may come and go from batch to batch.
        batch_id
            Spark's number of the batch; it goes up, and starts again at 0 with a new checkpoint.
        session
            Where views and DataFrames are made.
        """


class Function:
    """Calls a function of a DataFrame and the batch's number with each batch, as Spark's `foreachBatch` does.

    A replayed batch comes with the same number again: it is the function that has to replace what it wrote before.
    """

    def __init__(self, function: Callable[[Any, int], object]) -> None:
        self.function = function

    def write(self, answers: pa.Table, batch_id: int, session: SparkSession) -> None:
        """Call the function."""
        self.function(as_frame(answers, session), batch_id)


def deliver(sink: Sink | None, rows: pa.Table | None, batch_id: int, session: SparkSession) -> None:
    """Write the rows of a batch, where there are any and a sink for them."""
    if sink is not None and rows is not None and rows.num_rows:
        durable.step("sink", sink.write, rows, batch_id, session)


def as_sink(given: object, name: str = "answers") -> Sink | None:
    """Return the sink that is meant; None means none.

    A text is ``"memory"``, whose view gets the `name`, ``"console"``, or a folder for Parquet files. A function takes
    ``(answers, batch_id)``, where `answers` is a DataFrame.

    Examples
    --------
    >>> as_sink("console")
    Console(rows=20)
    >>> as_sink("out/answers")
    Files('out/answers', format='parquet')
    """
    if given is None:
        return None
    if isinstance(given, (str, os.PathLike)):
        return Memory(name) if given == "memory" else Console() if given == "console" else Files(given)
    if isinstance(given, type):
        msg = f"the sink is the class {given.__name__}; give an object of it, {given.__name__}(...), or {ALLOWED}"
        raise InputError(msg)
    write: Any = getattr(type(given), "write", None)
    if callable(write) and _takes(write, "self", "answers", "batch_id", "session"):
        return given  # type: ignore[return-value]  # just looked at
    if callable(given) and _takes(given, "answers", "batch_id"):
        return Function(given)
    msg = f"cannot write answers to this {type(given).__name__}; give {ALLOWED}"
    raise InputError(msg)


def _takes(function: Callable[..., Any], *values: str) -> bool:
    """Return whether a function takes so many values; True where its signature is not known."""
    try:
        inspect.signature(function).bind(*values)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
