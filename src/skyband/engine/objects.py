"""Objects: the ids, or ids of partitions, that aggregated queries rank, each with a number that stays.

A number is a place in arrays, so what is known of an object is found without a look at its id. Numbers are given about
in the order of appearance, NULL after the others that are new with it; `Objects.keep` gives those of objects that have
vanished to others.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.compiled import PARALLEL_ROWS, THREADS, in_threads, split
from skyband.engine.pane_kernels import enter, find
from skyband.order import IntArray, SlotArray, value_ranks

FEW = 1 << 10
FIRST = 1 << 18  # so many rows are numbered before all others: few of the others then have an id that is new
_PART = 32  # bits of a pair that hold the number of the id


class Integers:
    """Numbers for integers: a hash table."""

    def __init__(self) -> None:
        self._slots = np.full(2 * FEW, -1, np.int32)
        self._known = np.empty(FEW, np.int64)
        self._count = 0
        self.unused = -1  # the number that no key has, if there is one

    def __len__(self) -> int:
        return self._count

    @property
    def known(self) -> IntArray:
        """The integers in order of their numbers."""
        return self._known[: self._count]

    def numbers(self, keys: IntArray) -> SlotArray:
        """Return the numbers of keys; those that are new get one."""
        numbers = np.empty(len(keys), np.int32)
        first = min(len(keys), FIRST)
        self._number(keys[:first], numbers[:first])
        if first < len(keys):
            threads = THREADS if len(keys) >= PARALLEL_ROWS else 1
            edges = [first + edge for edge in split(len(keys) - first, threads)]
            in_threads(find, [(keys[a:b], self._slots, self._known, numbers[a:b]) for a, b in pairwise(edges)])
            self._enter(keys, numbers)
        return numbers

    def _number(self, keys: IntArray, numbers: SlotArray) -> None:
        if find(keys, self._slots, self._known, numbers):
            self._enter(keys, numbers)

    def _enter(self, keys: IntArray, numbers: SlotArray) -> None:
        while (count := enter(keys, self._slots, self._known, self._count, numbers)) < 0:
            self._count = -count - 1
            self._grow()
        self._count = count

    def none(self) -> int:
        """Return the number of what is no integer: one that no key has."""
        if self.unused < 0:
            if self._count == len(self._known):
                self._grow()
            self.unused = self._count
            self._known[self.unused] = 0  # which is in no slot
            self._count += 1
        return self.unused

    def _grow(self) -> None:
        """Make room for four times as many."""
        before, none = self.known, self._count if self.unused < 0 else self.unused
        self._known = np.empty(4 * max(self._count, FEW), np.int64)
        self._slots = np.full(2 * len(self._known), -1, np.int32)
        self._known[: self._count] = before
        for low, high in ((0, none), (none + 1, self._count)):
            again = np.full(max(high - low, 0), -1, np.int32)
            enter(before[low:high], self._slots, self._known, low, again)


class Values:
    """Numbers for the values of a column of any type: integers, texts, times; NULL is a value, NaN equals NaN."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._integers = Integers() if pa.types.is_int64(kind) else None
        self._numbers: dict[Any, int] = {}
        self._values: list[Any] = []

    def __len__(self) -> int:
        return len(self._values) if self._integers is None else len(self._integers)

    def numbers(self, column: pa.Array) -> SlotArray:
        """Return the numbers of values; those that are new get one."""
        if self._integers is None:
            coded = column.dictionary_encode(null_encoding="encode")
            known = [self._number(value) for value in coded.dictionary.to_pylist()]
            return np.array(known, np.int32)[coded.indices.to_numpy()] if known else np.empty(0, np.int32)
        if not column.null_count:
            return self._integers.numbers(column.to_numpy())
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        numbers = np.empty(len(column), np.int32)
        numbers[valid] = self._integers.numbers(column.drop_null().to_numpy())
        numbers[~valid] = self._integers.none()
        return numbers

    def _number(self, value: Any) -> int:
        number = self._numbers.setdefault(value if value == value else "NaN", len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number

    def values(self, numbers: IntArray | SlotArray) -> pa.Array:
        """Return the values that have these numbers."""
        if self._integers is None:
            return pa.array([self._values[number] for number in numbers.tolist()], self.kind)
        return pa.array(self._integers.known[numbers], mask=numbers == self._integers.unused)


class Objects:
    """Numbers for objects.

    Parameters
    ----------
    ids
        The type of ids.
    partitions
        That of partitions; None where there are none.

    Examples
    --------
    >>> objects = Objects(pa.string(), pa.int64())
    >>> objects.numbers(pa.array(["a", "b", "a", None]), pa.array([7, 7, 8, 7])).tolist()
    [0, 1, 2, 3]
    >>> objects.keep(np.array([1, 3])).tolist()
    [0, 1]
    >>> objects.ids(np.array([1, 0])).to_pylist(), objects.partitions(np.array([0, 1])).to_pylist()
    ([None, 'b'], [7, 7])
    """

    def __init__(self, ids: pa.DataType, partitions: pa.DataType | None) -> None:
        self._ids = Values(ids)
        self._parts = None if partitions is None else Values(partitions)
        self._pairs = Integers()

    def __len__(self) -> int:
        return len(self._ids) if self._parts is None else len(self._pairs)

    def numbers(self, ids: pa.Array, partitions: pa.Array | None) -> SlotArray:
        """Return the numbers of the objects of some rows; those that are new get one."""
        found = self._ids.numbers(ids)
        if self._parts is None:
            return found
        assert partitions is not None
        return self._pairs.numbers((self._parts.numbers(partitions).astype(np.int64) << _PART) | found)

    def ids(self, numbers: IntArray | SlotArray) -> pa.Array:
        """Return the ids of objects."""
        if self._parts is not None:
            numbers = self._pairs.known[numbers] & ((1 << _PART) - 1)
        return self._ids.values(numbers)

    def partitions(self, numbers: IntArray | SlotArray) -> pa.Array:
        """Return the partitions of objects, where there are any."""
        assert self._parts is not None
        return self._parts.values(self._pairs.known[numbers] >> _PART)

    def partition_ranks(self, numbers: IntArray | SlotArray) -> IntArray | None:
        """Return numbers that sort as the partitions of objects do; None where there are none."""
        if self._parts is None:
            return None
        ranks = value_ranks(self._parts.values(np.arange(len(self._parts))))
        found: IntArray = ranks[self._pairs.known[numbers] >> _PART]
        return found

    def keep(self, numbers: IntArray) -> SlotArray:
        """Keep some objects, and forget the others; return the new number of each: so many, from 0 on."""
        ids, partitions = self.ids(numbers), None if self._parts is None else self.partitions(numbers)
        kinds = self._ids.kind, None if self._parts is None else self._parts.kind
        Objects.__init__(self, *kinds)
        return self.numbers(ids, partitions)
