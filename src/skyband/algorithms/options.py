"""What of an algorithm can be chosen, and how it is written: ``pa(error=1e-4)``.

The notation is the same in Python, in query files, on the command line and in checkpoints: a name, and in parentheses
options with numbers. It is parsed, never evaluated. Texts that mean the same have one canonical form: options in the
order in which the algorithm lists them, without those that have their default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skyband.errors import QueryError

_CALL = re.compile(r"\s*([A-Za-z]\w*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_CHOICE = re.compile(r"\s*([A-Za-z]\w*)\s*=\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*")
_MOST_LETTERS = 1_000


@dataclass(frozen=True)
class Option:
    """A number that an algorithm can be given.

    Parameters
    ----------
    name
        How it is written.
    default
        What it is when nothing is said; None where that follows from the queries, as `meaning` says.
    low, high
        The least and the largest value.
    meaning
        What it does.
    symbol
        What the paper calls it.
    whole
        Whether only whole numbers will do.
    open
        Whether `low` itself is not allowed.
    """

    name: str
    default: float | None
    low: float
    high: float
    meaning: str
    symbol: str = ""
    whole: bool = True
    open: bool = False

    @property
    def range(self) -> str:
        """The values that it can have, in words.

        Examples
        --------
        >>> Option("error", 1e-3, 0, 1, "errors", whole=False, open=True).range
        'above 0 to 1'
        """
        return f"{'above ' if self.open else ''}{_written(self.low)} to {_written(self.high)}"

    def read(self, text: str) -> float | None:
        """Return the number that a text says; None where it is not among those that are allowed."""
        value = float(text.replace("_", ""))
        fits = self.low < value <= self.high if self.open else self.low <= value <= self.high
        if not fits or (self.whole and not value.is_integer()):
            return None
        return int(value) if self.whole else value

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        """Return how it is written, its default, its range and the paper's symbol.

        Examples
        --------
        >>> print(Option("pruning", 0.2, 0, 100, "growth", symbol="γ", whole=False))
        pruning=0.2 (γ, 0 to 100)
        """
        default = "…" if self.default is None else _written(self.default)
        kind = "whole numbers " if self.whole else ""
        return f"{self.name}={default} ({self.symbol + ', ' if self.symbol else ''}{kind}{self.range})"


def parse(text: str) -> tuple[str, str]:
    """Return the name of an algorithm, and the text of its options; what is not written so is all name.

    Examples
    --------
    >>> parse(" rapf( buffer=500, pruning = 0.3 )")
    ('rapf', 'buffer=500, pruning = 0.3')
    """
    call = _CALL.fullmatch(text) if len(text) <= _MOST_LETTERS else None
    return (text, "") if call is None else (call[1], (call[2] or "").strip())


def read(name: str, options: Sequence[Option], text: str) -> dict[str, float]:
    """Return the values of options that are not those by default, in the order of the options.

    Raises
    ------
    QueryError
        When there is no such option, or its value is not allowed; it lists the options.

    Examples
    --------
    >>> of_pa = [Option("error", 1e-3, 0, 1, "errors", whole=False, open=True), Option("cells", 10, 1, 100, "cells")]
    >>> read("pa", of_pa, "cells=16, error=0.001")
    {'cells': 16}
    """
    known, found = {option.name: option for option in options}, {}
    for part in text.split(",") if text else ():
        choice = _CHOICE.fullmatch(part)
        key, written = (None, "") if choice is None else (choice[1], choice[2])
        value = known[key].read(written) if key in known else None
        if value is None or key is None or key in found:
            why = "twice" if key in found else "not as name=number" if key is None else "which it does not take"
            there = f"its options are {', '.join(map(str, options))}" if options else "it has no options"
            msg = f"algorithm {name!r} is given {part.strip()!r}, {why}; {there}"
            raise QueryError(msg)
        found[key] = value
    return {
        option.name: found[option.name]
        for option in options
        if found.get(option.name, option.default) != option.default
    }


def write(name: str, chosen: Mapping[str, float]) -> str:
    """Return the canonical text of a name and of what was chosen.

    Examples
    --------
    >>> write("rapf", {"buffer": 500, "pruning": 0.3}), write("rapf", {})
    ('rapf(buffer=500, pruning=0.3)', 'rapf')
    """
    values = ", ".join(f"{key}={value!r}" for key, value in chosen.items())
    return f"{name}({values})" if values else name


def _written(value: float) -> str:
    return f"{int(value)}" if float(value).is_integer() else f"{value!r}"
