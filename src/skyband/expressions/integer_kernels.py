"""Remainders of whole numbers by a constant, without the division that costs more than all else of an event."""

from __future__ import annotations

from typing import Any

from skyband.compiled import jit

LIMIT = 1 << 52
"""Numbers that are nearer to zero are exact as float64, and so are their quotients but for one."""


@jit
def remainders(values: Any, divisor: Any, out: Any) -> None:
    """Write the remainder of each value, with the sign of the value; the divisor lies between 0 and `LIMIT`."""
    inverse = 1.0 / divisor
    for i in range(values.size):
        value = values[i]
        if -LIMIT < value < LIMIT:
            rest = value - int(value * inverse) * divisor
            if value >= 0:
                rest += divisor if rest < 0 else 0
                rest -= divisor if rest >= divisor else 0
            else:
                rest -= divisor if rest > 0 else 0
                rest += divisor if rest <= -divisor else 0
        else:
            rest = value % divisor
            rest -= divisor if value < 0 and rest > 0 else 0
        out[i] = rest
