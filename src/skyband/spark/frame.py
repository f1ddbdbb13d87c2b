"""A DataFrame as a service: its rows are read when values are refreshed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skyband.errors import InputError
from skyband.services.base import Id, matched
from skyband.spark.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        if missing := [name for name in (id, value) if name not in df.columns]:
            msg = f"the DataFrame of the service has no column {missing[0]!r}; it has {', '.join(df.columns)}"
            raise InputError(msg)
        self._df, self._id, self._value = df, id, value

    def fetch(self, ids: Sequence[Id]) -> Mapping[Any, Any]:
        """Read the rows of ids."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        name, value = F.col(quoted(self._id)), F.col(quoted(self._value))
        found = self._df.where(name.isin(list(ids))).select(name, value.cast("double")).collect()
        rows = [(row[0], row[1]) for row in found]
        return dict.fromkeys(ids) | matched(ids, rows)
