"""Rows in memory, as a view to query."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.table import column_as_text
from skyband.errors import InputError
from skyband.spark.sinks.rows import as_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH = "_batch"


class Memory:
    """The rows of the last batches as a view: ``session.sql("SELECT * FROM global_temp.answers")``.

    A stream's batches run in a session of its own, so only a global view, which all sessions of the application
    see, can be queried from outside. It is there once a first batch has rows, until the application ends; a
    stream that is started again begins with an empty one. Its columns are those of all batches it holds, NULL
    where a batch had no such column.

    To replace the whole view with every batch would send all rows to Spark again and again. So it is a union of
    parts, each at least twice as large as the next, as in a binary counter: there are few of them, a batch makes a
    small new one, and parts of like size are merged. A row moves about log2(batches) times in all.

    Parameters
    ----------
    name
        Of the view, in Spark's ``global_temp``; streams that run at the same time need different names.
    batches
        How many batches to keep.
    """

    def __init__(self, name: str = "answers", batches: int = 1000) -> None:
        if not re.fullmatch(r"[a-z_]\w*", name, re.ASCII | re.IGNORECASE):
            msg = f"name is {name!r}; a view's name has letters, digits and _, and does not start with a digit"
            raise InputError(msg)
        if batches < 1:
            msg = f"batches is {batches}; the memory keeps at least 1 batch"
            raise InputError(msg)
        self.name = name
        self.batches = batches
        self._ids: list[int] = []
        self._parts: list[pa.Table] = []

    def __repr__(self) -> str:
        return f"Memory({self.name!r}, batches={self.batches})"

    def write(self, answers: pa.Table, batch_id: int, session: SparkSession) -> None:
        """Put the rows of a batch into the view, in place of those it has of the batch."""
        before = self._parts if session.catalog.tableExists(self._view(0)) else []
        ids = sorted({*self._ids, batch_id})[-self.batches :]
        fresh = answers.append_column(_BATCH, pa.array(np.full(len(answers), batch_id)))
        parts = _merged([*(_without(part, batch_id) for part in self._parts), fresh], ids[0])
        for place, part in enumerate(parts):
            if place >= len(before) or part is not before[place]:
                as_frame(part, session).createOrReplaceTempView(self._view(place))
        texts = (
            f"SELECT * EXCEPT ({_BATCH}) FROM {self._view(place)} WHERE {_BATCH} >= {ids[0]}"
            for place in range(len(parts))
        )
        session.sql(" UNION ALL ".join(texts)).createOrReplaceGlobalTempView(self.name)
        for place in range(len(parts), len(before)):
            session.catalog.dropTempView(self._view(place))
        self._ids, self._parts = ids, parts

    def _view(self, place: int) -> str:
        return f"{self.name}_part_{place}"


def _without(part: pa.Table, batch_id: int) -> pa.Table:
    others = pc.not_equal(part[_BATCH], batch_id)
    return part if pc.all(others).as_py() else part.filter(others)


def _merged(parts: list[pa.Table], oldest: int) -> list[pa.Table]:
    """Merge the last parts until each is more than twice as large as the next; drop those that are too old."""
    *parts, fresh = (part for part in parts if not len(part) or pc.max(part[_BATCH]).as_py() >= oldest)
    if parts:
        fresh = _concat([parts[0].slice(0, 0), fresh])
        if fresh.schema != parts[0].schema:  # new columns: all parts need them
            return [_concat([*parts, fresh])]
    while parts and len(parts[-1]) <= 2 * len(fresh):
        older = parts.pop()
        fresh = _concat([older.filter(pc.greater_equal(older[_BATCH], oldest)), fresh])
    return [*parts, fresh]


def _concat(parts: list[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):  # partitions of another type than before
        return pa.concat_tables([column_as_text(part, "partition") for part in parts], promote_options="permissive")
