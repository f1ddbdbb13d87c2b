"""NumPy evaluation of a typed tree over Arrow record batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InputError
from skyband.expressions.bind import Typed
from skyband.expressions.tree import Column, Literal, Type
from skyband.expressions.vectors import Values, Vec


def evaluate_tree(typed: Typed, batch: pa.RecordBatch) -> Vec:
    """Evaluate a tree over one batch, whole: slices that fit the cache were not worth their code."""
    with np.errstate(all="ignore"):
        return _full(_evaluate(typed, batch), batch.num_rows)


def _evaluate(typed: Typed, batch: pa.RecordBatch) -> Vec:
    if typed.function is not None:
        return typed.function.kernel(*(_evaluate(arg, batch) for arg in typed.args))
    if isinstance(typed.node, Literal):
        return constant(typed.node, typed.type)
    return load(column(typed, batch), typed.type)


def column(typed: Typed, batch: pa.RecordBatch) -> pa.Array:
    """Return the column that `typed` was bound to."""
    assert isinstance(typed.node, Column)
    name = typed.node.name
    index = batch.schema.get_field_index(name)
    if index < 0 or batch.schema.types[index] != typed.arrow:
        found = "is missing" if index < 0 else f"is {batch.schema.types[index]}"
        message = f"column {name!r} {found} in this batch; the expression was bound to {typed.arrow}"
        raise InputError(message)
    return batch.column(index)


def constant(literal: Literal, wanted: Type) -> Vec:
    """Return a literal as a vector without rows; NULL is of the type that its place wants."""
    value = literal.value
    valid = np.asarray(False) if value is None else None
    if wanted is Type.TEXT:
        return Vec(pa.scalar(value, pa.string()), valid)
    return Vec(np.asarray(value if value is not None else 0, dtype=_DTYPES[wanted]), valid)


_DTYPES = {Type.NUMBER: np.float64, Type.INTEGER: np.int64, Type.TIME: np.int64, Type.BOOLEAN: np.bool_}


def load(array: pa.Array, wanted: Type) -> Vec:
    """View (or where the type demands it, convert) an Arrow column.

    Examples
    --------
    >>> load(pa.array([1.5, None, 3.0]), Type.NUMBER).valid
    array([ True, False,  True])
    """
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    if wanted is Type.TEXT:
        return Vec(array if array.type == pa.string() else array.cast(pa.string()), valid)
    if wanted is Type.BOOLEAN:
        return Vec((array if valid is None else array.fill_null(False)).to_numpy(zero_copy_only=False), valid)
    if wanted is Type.TIME:
        return Vec(_micros(array), valid)
    if pa.types.is_decimal(array.type):
        # Through text, because Arrow's own conversion is not correctly rounded and Spark's is.
        array = array.cast(pa.string()).cast(pa.float64())
    return Vec(_raw(array, array.type.to_pandas_dtype()).astype(_DTYPES[wanted], copy=False), valid)


def _raw(array: pa.Array, dtype: type[np.generic]) -> Values:
    """View the values of a fixed-width column, whatever stands under its NULLs."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype)[array.offset : array.offset + len(array)]


# Multiplier and divisor that make microseconds of a unit of Arrow's times.
_UNITS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


def _micros(array: pa.Array) -> Values:
    """Microseconds since 1970 in UTC; a timestamp without a zone is taken to be in UTC."""
    if pa.types.is_date32(array.type):
        return _raw(array, np.int32).astype(np.int64) * 86_400_000_000
    times, divisor = _UNITS["ms" if pa.types.is_date(array.type) else array.type.unit]
    raw = _raw(array, np.int64)
    return raw if times == divisor == 1 else raw * times // divisor


def _full(vec: Vec, rows: int) -> Vec:
    """Give a constant its rows, and a text its NULLs."""
    values, valid = vec
    if valid is not None:
        valid = None if valid.all() else np.broadcast_to(valid, rows)
    if isinstance(values, np.ndarray | np.generic):
        return Vec(values if values.shape == (rows,) else np.broadcast_to(values, rows), valid)
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, rows)
    return Vec(values if valid is None else pc.if_else(pa.array(valid), values, None), valid)
