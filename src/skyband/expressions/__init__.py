"""SQL expressions over a stream's columns: the same value from NumPy and from Spark.

A `score`, a `where` or a `partition_by` is parsed into one small tree (`skyband.expressions.tree`) of which
both meanings are made: an evaluation over Arrow record batches, and a Spark SQL text. They agree bit for
bit, also on NULL, NaN, infinities, -0.0 and division by zero (see ``docs/expressions.md`` for the table), but
for the last digits of exp, ln, log, log10, log2, log1p, power, sin, cos and tan.

- Integers stay int64, and what does not fit is NULL; with a float beside them, and in ``/``, they become float64.
- ``x / 0`` and ``x % 0`` are NULL, as are logarithms of what is not positive. Nothing raises at run time.
- NaN equals NaN and is greater than every other number; -0.0 equals 0.0.
- Integers compare with integers exactly; text compares by its UTF-8 bytes; AND, OR and NOT know NULL.
- lower() and upper() change ASCII letters only; trim() removes spaces only.
- Times compare with times and with ISO literals, as microseconds in UTC.
- A column is found by its exact name, else by a unique one that differs in upper and lower case only.

Examples
--------
>>> import pyarrow as pa
>>> batch = pa.record_batch({"price": [2.0, 3.0], "volume": [10, None]})
>>> score = parse("price * volume")
>>> values, valid = score.bind(batch.schema).scores(batch)
>>> float(values[0]), valid.tolist()
(20.0, [True, False])
>>> score.spark_sql(batch.schema)
'(`price` * cast(`volume` AS DOUBLE))'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skyband.errors import InputError
from skyband.expressions import tree
from skyband.expressions.bind import Typed, bind_tree
from skyband.expressions.evaluate import column, evaluate_tree
from skyband.expressions.parse import parse_tree
from skyband.expressions.sparksql import render
from skyband.expressions.vectors import Mask, Values, is_true

__all__ = ["ARROW", "Bound", "Expression", "parse"]

ARROW = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
}
"""The Arrow type of an expression's values, by its own type."""


def parse(text: str, *, aggregates: bool = False) -> Expression:
    """Parse one SQL expression.

    Parameters
    ----------
    text
        For example ``price * ln(1 + volume)``.
    aggregates
        Whether it may hold ``count(*)``, ``sum(x)`` and the like; the caller must take them out before binding.

    Raises
    ------
    ExpressionError
        When it cannot be read or uses something that is not allowed; the message shows where.

    Examples
    --------
    >>> parse("a+b") == parse("a + b")
    True
    >>> parse("rand()")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    skyband.errors.ExpressionError: the function rand() is not allowed (did you mean round?); ...
    """
    return Expression(text, parse_tree(text, aggregates))


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; equal to another when their trees are equal.

    Parameters
    ----------
    text
        As it was written; ``str()`` gives it normalised.
    tree
        What it means.
    """

    text: str = field(compare=False)
    tree: tree.Node

    def __str__(self) -> str:
        return tree.to_sql(self.tree)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns it uses, as written, sorted."""
        return tuple(sorted(set(tree.columns(self.tree))))

    @property
    def is_column(self) -> bool:
        """Whether it is nothing but one column."""
        return isinstance(self.tree, tree.Column)

    def bind(self, schema: pa.Schema, needs: Literal["score", "filter"] | None = None) -> Bound:
        """Resolve columns and types over a schema.

        A schema may also hold a column that is named as the whole expression (as ``str()`` gives it): then that
        column is taken for its value.

        Parameters
        ----------
        schema
            Of the batches to come.
        needs
            What it will be used for: a score must be a number, a filter true or false.

        Raises
        ------
        InputError
            For a column that is not there, and for types that do not go together.
        """
        # A column named as the whole expression is the expression, already computed upstream.
        known = tree.Column(str(self)) if str(self) in schema.names else self.tree
        bound = Bound(self, bind_tree(known, schema))
        if needs is not None:
            bound.check(needs)
        return bound

    def spark_sql(self, schema: pa.Schema) -> str:
        """Write it for ``pyspark.sql.functions.expr`` on a DataFrame with this schema.

        Examples
        --------
        >>> parse("a / 2").spark_sql(pa.schema([("a", pa.float64())]))
        'try_divide(`a`, 2.0D)'
        """
        return render(bind_tree(self.tree, schema), schema)


@dataclass(frozen=True, slots=True)
class Bound:
    """An expression over a schema, ready to be evaluated over batches of it."""

    expression: Expression
    typed: Typed

    @property
    def type(self) -> str:
        """One of "number", "integer", "text", "boolean" and "time"."""
        return self.typed.type.value

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of computed values."""
        return ARROW[self.type]

    def check(self, needs: Literal["score", "filter"]) -> None:
        """Raise an InputError unless the type fits a score or a filter."""
        allowed = ("number", "integer") if needs == "score" else ("boolean",)
        if self.type not in allowed:
            message = f"a {needs} must be {' or '.join(allowed)}, and {self.expression} is {self.type}"
            raise InputError(message)

    def evaluate(self, batch: pa.RecordBatch) -> tuple[Values, Mask | None]:
        """Values (float64, int64, bool; an Arrow array for text) and where they are not NULL.

        The mask is None when nothing is NULL; values under NULL mean nothing. A time is in
        microseconds since 1970 in UTC. A bare float64 column is a view of the batch.
        """
        return evaluate_tree(self.typed, batch)

    def scores(self, batch: pa.RecordBatch) -> tuple[NDArray[np.float64], Mask | None]:
        """Values as float64; for numbers and integers only."""
        self.check("score")
        values, valid = self.evaluate(batch)
        return values.astype(np.float64, copy=False), valid

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Where a boolean expression is true; NULL counts as false."""
        self.check("filter")
        return is_true(evaluate_tree(self.typed, batch))

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """Values of any type as an Arrow array with nulls; a bare column is returned as it is."""
        if isinstance(self.typed.node, tree.Column) and self.type != "number":
            return column(self.typed, batch)
        values, valid = self.evaluate(batch)
        if isinstance(values, pa.Array):
            return values
        return pa.array(values, mask=None if valid is None else ~valid)
