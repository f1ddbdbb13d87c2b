"""Look whole numbers up in a table, one place for each number of a span: what a batch of integer keys costs."""

from __future__ import annotations

from typing import Any

from skyband.compiled import jit

UNKNOWN = 0


@jit
def look_up(values: Any, base: Any, table: Any, out: Any) -> Any:
    """Write what the table has for each value, counted from `base`; return how many it does not know.

    Values outside of the table are not known either.
    """
    unknown = 0
    for i in range(values.size):
        place = values[i] - base
        found = table[place] if 0 <= place < table.size else table.dtype.type(UNKNOWN)
        out[i] = found
        unknown += found == UNKNOWN
    return unknown


@jit
def mark(values: Any, base: Any, seen: Any) -> None:
    """Mark the values that occur, counted from `base`."""
    for value in values:
        seen[value - base] = True


@jit
def extent(values: Any) -> Any:
    """Return the smallest and the largest of some values, of which there is at least one."""
    low = high = values[0]
    for value in values:
        low = min(low, value)
        high = max(high, value)
    return low, high
