"""Whole numbers that stand for ids or partition values and sort as they do.

Kernels compare integers only. Integer ids are their own keys; for text the known values are kept sorted and a
key is a place in that list. New values move the places behind them: `encode` says how.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.compiled import PARALLEL_ROWS, THREADS, gather, in_threads, split
from skyband.events import key_kernels as kernel
from skyband.order import IntArray

NULL_KEY = 0
"""The key of NULL: before every value, as Spark sorts it. The first value has key 1."""
MOST_PLACES = 1 << 22
"""So many places a table from integers to their keys has at most."""
SAMPLE = 1 << 16


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
        self._table: tuple[int, npt.NDArray[np.int32]] | None = None  # of integers: the least, and the key of each

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Keys:
        """Make keys again from their sorted values."""
        return cls(_plain(column.combine_chunks()) if len(column) else None)

    def encode(self, column: pa.Array) -> tuple[IntArray, IntArray | None]:
        """Return the key of each value, and where earlier keys moved to (None when none did)."""
        if pa.types.is_integer(column.type) and column.null_count == 0 and len(column) > 0:
            found = self._encode_integers(column)
            if found is not None:
                return found
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        fresh = _plain(coded.dictionary)
        moved = self._learn(np.sort(fresh, kind="stable"))
        table = np.searchsorted(self.values, fresh).astype(np.int64) + 1
        index = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        key = table[index] if len(table) else np.zeros(len(index), np.int64)
        if coded.null_count:
            key = np.where(coded.is_null().to_numpy(zero_copy_only=False), NULL_KEY, key)
        return key.astype(np.int64, copy=False), moved

    def _encode_integers(self, column: pa.Array) -> tuple[IntArray, IntArray | None] | None:
        """Do as `encode` by a table that has a place for each integer of their span; None where that is too long."""
        values = column.cast(pa.int64()).to_numpy()
        key = np.empty(len(values), np.int64)
        if self._table is not None and _look_up(values, *self._table, key):
            return key, None
        known = self.values.astype(np.int64)
        for looked in dict.fromkeys((min(SAMPLE, len(values)), len(values))):  # a few values mostly show them all
            low, high = _extent(values[:looked])
            base, end = min([low, *known[:1].tolist()]), max([high, *known[-1:].tolist()])
            if end - base >= MOST_PLACES:
                return None
            seen = np.zeros(end - base + 1, bool)
            seen[known - base] = True
            in_threads(kernel.mark, [(values[:looked][run], base, seen) for run in _runs(values[:looked])])
            table = np.zeros(len(seen), np.int32)
            places = np.flatnonzero(seen)
            table[places] = np.arange(1, len(places) + 1)
            if _look_up(values, base, table, key):
                break
        self.values, self._table = places + base, (base, table)
        moved = np.append(NULL_KEY, table[known - base]).astype(np.int64)
        return key, None if moved[-1] == len(known) else moved

    def _learn(self, values: npt.NDArray[Any]) -> IntArray | None:
        """Know these sorted values from now on; return where earlier keys moved to (None when none did)."""
        if len(self.values) == 0:
            self.values = self.values.astype(values.dtype)
        missing = values[~_contains(self.values, values)]
        if len(missing) == 0:
            return None
        moved = None
        places = np.searchsorted(self.values, missing)
        if len(self.values) and places[0] < len(self.values):
            shift = np.zeros(len(self.values) + 2, np.int64)
            np.add.at(shift, places + 1, 1)
            moved = np.arange(len(self.values) + 1) + np.cumsum(shift)[:-1]
        self.values, self._table = np.insert(self.values, places, missing), None
        return moved

    def retain(self, used: IntArray) -> IntArray | None:
        """Forget the values whose keys are not used; return where the others moved to, if that paid."""
        if len(self.values) < 1024:
            return None
        live = np.flatnonzero(np.bincount(used, minlength=1)[1:]) + 1
        if len(self.values) < 2 * len(live) + 1024:
            return None
        moved = np.full(len(self.values) + 1, NULL_KEY, np.int64)
        moved[live] = np.arange(1, len(live) + 1)
        self.values, self._table = self.values[live - 1], None
        return moved

    def decode(self, keys: IntArray) -> pa.Array:
        """Return the values of keys."""
        if len(self.values) == 0:
            return pa.nulls(len(keys), pa.string())
        if self.values.dtype == np.int64:
            found = gather(np.append(0, self.values), keys)
            return pa.array(found, mask=keys == NULL_KEY if keys.min(initial=1) == NULL_KEY else None)
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


def _runs(values: IntArray) -> list[slice]:
    edges = split(len(values), THREADS if len(values) >= PARALLEL_ROWS else 1)
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _look_up(values: IntArray, base: int, table: npt.NDArray[np.int32], key: IntArray) -> bool:
    """Write the key of each value; tell whether the table has them all."""
    return not any(in_threads(kernel.look_up, [(values[run], base, table, key[run]) for run in _runs(values)]))


def _extent(values: IntArray) -> tuple[int, int]:
    """Return the smallest and the largest value."""
    spans = in_threads(kernel.extent, [(values[run],) for run in _runs(values)])
    return int(min(low for low, _ in spans)), int(max(high for _, high in spans))


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
