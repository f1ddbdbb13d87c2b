"""DataFrames as services: a batch one that is read on refresh, a stream of changes."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skyband.errors import InputError
from skyband.remote.services.base import Id, matched
from skyband.spark.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery


class Frame:
    """A batch DataFrame with one row per id, such as a table of a database or a lake.

    Every refresh is a Spark job that reads the rows of some ids: so large batches of ids are best, as
    ``Remote(Frame(...), limits=Limits(batch=1000))``. An id without a row does not exist.

    Parameters
    ----------
    df
        The DataFrame. It is read anew by every refresh, so do not cache one that changes.
    id, value
        Its columns.

    Examples
    --------
    >>> services = {"followers": Frame(spark.read.table("users"), id="name", value="followers")}  # doctest: +SKIP
    """

    def __init__(self, df: DataFrame, *, id: str, value: str) -> None:  # noqa: A002 - the same word as everywhere
        if getattr(df, "isStreaming", None) is not False:
            what = "a stream" if getattr(df, "isStreaming", False) else f"of type {type(df).__name__}"
            msg = f"the DataFrame of the service is {what}; give a batch DataFrame, or the stream in Changes"
            raise InputError(msg)
        _check_columns(df, (id, value), "DataFrame of the service")
        self._df, self._id, self._value = df, id, value

    def fetch(self, ids: Sequence[Id]) -> Mapping[Any, Any]:
        """Read the rows of ids."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        name, value = F.col(quoted(self._id)), F.col(quoted(self._value))
        found = self._df.where(name.isin(list(ids))).select(name, value.cast("double")).collect()
        return dict.fromkeys(ids) | matched(ids, [(row[0], row[1]) for row in found])

    def values(self, service: str, id_: str, value: str) -> DataFrame:
        """Return all that there is: text ids and values, in columns of these names, of ids that exist.

        An id with several values is an error when it is read.
        """
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        name, number = F.col(quoted(self._id)).cast("string"), F.col(quoted(self._value)).cast("double")
        found = self._df.select(name.alias(id_), F.nanvl(number, F.lit(None)).alias(value)).dropna()
        least, most = F.min(value), F.max(value)
        told = F.concat(
            F.lit(f"the DataFrame of the service {service!r} has several values for the id "), F.col(quoted(id_)),
            F.lit("; give it one row per id"),
        )  # fmt: skip
        one = F.when(least == most, most).otherwise(F.raise_error(told).cast("double"))
        return found.groupBy(quoted(id_)).agg(one.alias(value))


class Changes:
    """A streaming DataFrame with a row for every change, such as a change feed or a compacted topic.

    Changes are taken in before each batch of the stream is answered; they cost no budget, so give the join a budget of
    0. The feed is read from its beginning whenever the stream is started, and what is there then is known from the
    first answer on. An id whose value is NULL does not exist any more.

    Parameters
    ----------
    df
        The streaming DataFrame.
    id, value
        Its columns.
    time
        A column that says which change of an id is the later one. Without it, the later row is.

    Examples
    --------
    >>> feed = spark.readStream.table("follower_changes")  # doctest: +SKIP
    >>> services = {"followers": Changes(feed, id="name", value="followers", time="changed")}  # doctest: +SKIP
    """

    pushes = True

    def __init__(self, df: DataFrame, *, id: str, value: str, time: str | None = None) -> None:  # noqa: A002 - as there
        if getattr(df, "isStreaming", None) is not True:
            what = "a batch DataFrame" if hasattr(df, "isStreaming") else f"of type {type(df).__name__}"
            msg = f"the changes are {what}; give a streaming DataFrame, or the batch in Frame"
            raise InputError(msg)
        wanted = [name for name in (id, value, time) if name is not None]
        _check_columns(df, wanted, "stream of changes")
        self._df, self._names = df.select(*map(quoted, wanted)), (id, value, time)
        self._lock = threading.Lock()
        self._latest: dict[Id, tuple[Any, float | None]] = {}
        self._news: set[Id] = set()
        self._drained: tuple[int, set[Id]] = (-1, set())
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        """Begin to read, and wait for what is there already."""
        self.stop()
        self._folder = tempfile.TemporaryDirectory(prefix="skyband-changes-", ignore_cleanup_errors=True)
        writer = self._df.writeStream.option("checkpointLocation", self._folder.name)
        self._query = writer.foreachBatch(self._take).start()
        self._query.processAllAvailable()

    def stop(self) -> None:
        """Read no further."""
        if self._query is not None:
            self._query.stop()
            self._query = None
        if self._folder is not None:
            self._folder.cleanup()

    def _take(self, df: DataFrame, _: int) -> None:
        rows = df.toArrow().to_pylist()
        name, value, time = self._names
        with self._lock:
            for row in rows:
                when = None if time is None else row[time]
                known = self._latest.get(row[name])
                if row[name] is not None and (known is None or when is None or known[0] is None or when >= known[0]):
                    self._latest[row[name]] = when, None if row[value] is None else float(row[value])
                    self._news.add(row[name])

    def drain(self, batch: int) -> dict[Id, float | None]:
        """Return what is new since the batch before; a batch that is handled again gets all of it again."""
        with self._lock:
            before, drained = self._drained
            drained = self._news | (drained if before == batch else set())
            self._drained, self._news = (batch, drained), set()
            return {name: self._latest[name][1] for name in drained}

    def fetch(self, ids: Sequence[Id]) -> Mapping[Any, Any]:
        """Return the latest values, for those who ask nevertheless; ids that never changed are not answered."""
        with self._lock:
            return {name: self._latest[name][1] for name in ids if name in self._latest}


def _check_columns(df: DataFrame, names: Sequence[str], what: str) -> None:
    if missing := [name for name in names if name not in df.columns]:
        msg = f"the {what} has no column {missing[0]!r}; it has {', '.join(df.columns)}"
        raise InputError(msg)
