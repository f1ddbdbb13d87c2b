"""Whole numbers that stand for ids or partition values and sort as they do.

Kernels compare integers only. Integer ids are their own keys; for text the known values are kept sorted and a
key is a place in that list. New values move the places behind them: `encode` says how.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.order import IntArray

NULL_KEY = 0
"""The key of NULL: before every value, as Spark sorts it. The first value has key 1."""


class Keys:
    """Sorted values with their places.

    Examples
    --------
    >>> keys = Keys()
    >>> keys.encode(pa.array(["m", "t", "m"]))[0].tolist()
    [1, 2, 1]
    >>> found, moved = keys.encode(pa.array(["p"]))
    >>> found.tolist(), moved.tolist()              # "t" moved from 2 to 3
    ([2], [0, 1, 3])
    """

    def __init__(self, values: npt.NDArray[Any] | None = None) -> None:
        self.values = np.empty(0, object) if values is None else values

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Keys:
        """Make keys again from their sorted values."""
        return cls(_plain(column.combine_chunks()) if len(column) else None)

    def encode(self, column: pa.Array) -> tuple[IntArray, IntArray | None]:
        """Return the key of each value, and where earlier keys moved to (None when none did)."""
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        fresh = _plain(coded.dictionary)
        order = np.argsort(fresh, kind="stable")
        fresh_sorted = fresh[order]
        if len(self.values) == 0:
            self.values = self.values.astype(fresh.dtype)
        missing = fresh_sorted[~_contains(self.values, fresh_sorted)]
        moved = None
        if len(missing):
            places = np.searchsorted(self.values, missing)
            if len(self.values) and places[0] < len(self.values):
                shift = np.zeros(len(self.values) + 2, np.int64)
                np.add.at(shift, places + 1, 1)
                moved = np.arange(len(self.values) + 1) + np.cumsum(shift)[:-1]
            self.values = np.insert(self.values, places, missing)
        table = np.searchsorted(self.values, fresh).astype(np.int64) + 1
        index = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        found = table[index] if len(table) else np.zeros(len(index), np.int64)
        if coded.null_count:
            found = np.where(coded.is_null().to_numpy(zero_copy_only=False), NULL_KEY, found)
        return found.astype(np.int64), moved

    def retain(self, used: IntArray) -> IntArray | None:
        """Forget the values whose keys are not used; return where the others moved to, if that paid."""
        live = np.unique(used[used != NULL_KEY])
        if len(self.values) < 2 * len(live) + 1024:
            return None
        moved = np.full(len(self.values) + 1, NULL_KEY, np.int64)
        moved[live] = np.arange(1, len(live) + 1)
        self.values = self.values[live - 1]
        return moved

    def decode(self, keys: IntArray) -> pa.Array:
        """Return the values of keys."""
        if len(self.values) == 0:
            return pa.nulls(len(keys), pa.string())
        return pa.array(self.values).take(pa.array(keys - 1, mask=keys == NULL_KEY))


def move(column: IntArray, moved: IntArray | None) -> None:
    """Rewrite a column of keys in place after its values moved."""
    if moved is not None:
        column[:] = moved[column]


def _plain(dictionary: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_string(dictionary.type) or pa.types.is_large_string(dictionary.type):
        return np.array(dictionary.to_pylist(), object)
    if pa.types.is_boolean(dictionary.type):
        return dictionary.to_numpy(zero_copy_only=False).astype(bool)  # type: ignore[no-any-return]
    if pa.types.is_integer(dictionary.type):
        return dictionary.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]
    return dictionary.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _contains(known: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if len(known) == 0:
        return np.zeros(len(values), bool)
    place = np.minimum(np.searchsorted(known, values), len(known) - 1)
    found = known[place]
    same = found == values
    if values.dtype.kind == "f":
        same |= np.isnan(found) & np.isnan(values)
    return same  # type: ignore[no-any-return]


def is_key(kind: pa.DataType) -> bool:
    """Tell whether a column of this type can hold ids: text, or whole numbers that fit int64."""
    return is_text(kind) or (bool(pa.types.is_integer(kind)) and not pa.types.is_uint64(kind))


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column holds text, dictionary-encoded or not."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
