"""Columns of values with NULLs, and the NumPy meaning of every operator and function on them.

A kernel gets whole `Vec`s and never raises on data. Numbers, integers, times and booleans are NumPy arrays,
text is an Arrow array; constants have no rows (shape ``()`` or an Arrow scalar) and are broadcast.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skyband.compiled import PARALLEL_ROWS, THREADS, in_threads, split
from skyband.expressions.integer_kernels import LIMIT, remainders
from skyband.expressions.like import re2

Values: TypeAlias = Any  # an ndarray, or for text a pa.Array or pa.Scalar
Mask: TypeAlias = NDArray[np.bool_]


class Vec(NamedTuple):
    """Values and where they count; `valid` is None when nothing is NULL.

    What stands in `values` where `valid` is False means nothing.
    """

    values: Values
    valid: Mask | None = None


Kernel: TypeAlias = Callable[..., Vec]


def from_arrow(result: Any) -> Values:
    """NumPy values of what an Arrow function returned; NULLs become zeros."""
    if isinstance(result, pa.Scalar):
        return np.asarray(result.as_py() or 0, dtype=result.type.to_pandas_dtype())
    return result.fill_null(0 if result.type != pa.bool_() else False).to_numpy(zero_copy_only=False)


def all_valid(*masks: Mask | None) -> Mask | None:
    """Where all of several vectors are valid."""
    present = [mask for mask in masks if mask is not None]
    return functools.reduce(np.logical_and, present) if present else None


def strict(function: Callable[..., Values], null_where: Callable[..., Any] | None = None) -> Kernel:
    """Make a kernel of a function of plain values: NULL in, NULL out, and NULL where `null_where` says.

    Examples
    --------
    >>> root = strict(np.sqrt, null_where=lambda x: x < 0)
    >>> root(Vec(np.array([4.0, 9.0]), np.array([True, False])))
    Vec(values=array([2., 3.]), valid=array([ True, False]))
    """

    def kernel(*args: Vec) -> Vec:
        values = [arg.values for arg in args]
        valid = all_valid(*(arg.valid for arg in args))
        if null_where is not None and (nulls := null_where(*values)).any():
            valid = all_valid(valid, ~nulls)
        return Vec(function(*values), valid)

    return kernel


# Comparison of plain values. Spark's rule: NaN equals NaN and is greater than every other number.


def _compare(
    on_numbers: Callable[..., Any], on_text: Callable[..., Any], at_nan: Callable[[Any], Any], a: Values, b: Values
) -> Values:
    """Compare; `at_nan` says, by whether a is NaN, what holds where b is NaN."""
    if isinstance(a, pa.Array | pa.Scalar):
        return from_arrow(on_text(a, b))
    result = on_numbers(a, b)
    if b.dtype == np.float64:
        b_nan = np.isnan(b)
        if b_nan.any():  # mostly there is none, or b is a constant: then this costs one pass or nothing
            result = np.where(b_nan, at_nan(np.isnan(a)), result)
    return result


equal = functools.partial(_compare, np.equal, pc.equal, lambda a_nan: a_nan)
less = functools.partial(_compare, np.less, pc.less, np.logical_not)
less_equal = functools.partial(_compare, np.less_equal, pc.less_equal, lambda _: True)


def is_true(a: Vec) -> Mask:
    """Where a boolean is true; NULL is not."""
    return a.values if a.valid is None else a.values & a.valid  # type: ignore[no-any-return]


def is_nan(a: Vec) -> Vec:
    """ISNAN: false for NULL."""
    return Vec(is_true(Vec(np.isnan(a.values), a.valid)))


def is_null(a: Vec) -> Vec:
    """IS NULL."""
    return Vec(np.zeros(_rows(a.values), np.bool_) if a.valid is None else ~a.valid)


def null_safe_equal(a: Vec, b: Vec) -> Vec:
    """Compare as ``<=>`` does: two NULLs are equal, and the answer is never NULL."""
    same = equal(a.values, b.values)
    if a.valid is None and b.valid is None:
        return Vec(same)
    a_valid, b_valid = _mask(a), _mask(b)
    return Vec((same & a_valid & b_valid) | (~a_valid & ~b_valid))


def _mask(a: Vec) -> Mask:
    return np.asarray(True) if a.valid is None else a.valid


def _rows(values: Values) -> tuple[int, ...]:
    if isinstance(values, pa.Array):
        return (len(values),)
    return () if isinstance(values, pa.Scalar) else tuple(values.shape)


# Three-valued logic. Values under NULL may be anything: x AND FALSE is FALSE whatever stands in x.


def and_(*args: Vec) -> Vec:
    """Kleene's AND: FALSE wins over NULL."""
    return functools.reduce(lambda a, b: _logic(a, b, np.logical_and, decides=False), args)


def or_(*args: Vec) -> Vec:
    """Kleene's OR: TRUE wins over NULL."""
    return functools.reduce(lambda a, b: _logic(a, b, np.logical_or, decides=True), args)


def _logic(a: Vec, b: Vec, operator: Callable[..., Any], *, decides: bool) -> Vec:
    values = operator(a.values, b.values)
    if a.valid is None and b.valid is None:
        return Vec(values)
    a_valid, b_valid = _mask(a), _mask(b)
    decided = (a_valid & (a.values == decides)) | (b_valid & (b.values == decides))
    return Vec(values, (a_valid & b_valid) | decided)


# Choosing between values.


def choose(condition: Vec, a: Vec, b: Vec) -> Vec:
    """IF(condition, a, b); a NULL condition chooses b."""
    mask = is_true(condition)
    if isinstance(a.values, pa.Array | pa.Scalar):
        values = pc.if_else(pa.array(mask) if mask.ndim else pa.scalar(bool(mask)), a.values, b.values)
    else:
        values = np.where(mask, a.values, b.values)
    if a.valid is None and b.valid is None:
        return Vec(values)
    return Vec(values, np.where(mask, _mask(a), _mask(b)))


def case(*args: Vec) -> Vec:
    """CASE: condition, value, condition, value, …, and the value of ELSE."""
    result = args[-1]
    for i in range(len(args) - 3, -1, -2):
        result = choose(args[i], args[i + 1], result)
    return result


def switch(subject: Vec, *args: Vec) -> Vec:
    """CASE subject WHEN …: value, result, value, result, …, and the result of ELSE."""
    tests = [strict(equal)(subject, value) for value in args[:-1:2]]
    pairs = zip(tests, args[1:-1:2], strict=True)
    return case(*(part for pair in pairs for part in pair), args[-1])


def coalesce(*args: Vec) -> Vec:
    """Return the first value that is not NULL."""
    return functools.reduce(lambda b, a: choose(Vec(_mask(a)), a, b), reversed(args))


def nullif(a: Vec, b: Vec) -> Vec:
    """NULL where a = b, else a."""
    same = strict(equal)(a, b)
    return Vec(a.values, all_valid(a.valid, ~is_true(same)))


def extreme(better: Callable[[Values, Values], Values]) -> Kernel:
    """Make LEAST or GREATEST: NULLs are skipped, and of equal values the first stays."""

    def pick(best: Vec, a: Vec) -> Vec:
        wins = or_(Vec(~_mask(best)), strict(better)(a, best))
        return choose(Vec(wins.values & _mask(wins) & _mask(a)), a, best)

    return lambda *args: functools.reduce(pick, args)


def nanvl(a: Vec, b: Vec) -> Vec:
    """Return b where a is NaN."""
    return choose(Vec(np.isnan(a.values), a.valid), b, a)


def is_in(a: Vec, *items: Vec) -> Vec:
    """IN: as the OR of the comparisons, so NULL when nothing matches and something is NULL."""
    return or_(*(strict(equal)(a, item) for item in items))


def between(a: Vec, low: Vec, high: Vec) -> Vec:
    """``low <= a AND a <= high``."""
    return and_(strict(less_equal)(low, a), strict(less_equal)(a, high))


# Numbers.


def power(a: Values, b: Values) -> Values:
    """Raise to a power as Java does: 1 to an infinite or unknown power is NaN (in C it is 1)."""
    return np.where((np.abs(a) == 1) & ~np.isfinite(b), np.nan, np.power(a, b))


def round_half_up(a: Values) -> Values:
    """Round to an integer, halves away from zero; never -0.0, as Spark goes through a decimal."""
    whole = np.trunc(a)
    return whole + np.where(np.abs(a - whole) >= 0.5, np.copysign(1.0, a), 0.0) + 0.0


def to_integer(low: float, high: float) -> Kernel:
    """Make a cast to integer: truncates, and gives NULL unless low <= a < high then (NaN never is)."""

    def outside(a: Values) -> Any:
        whole = np.trunc(a)
        return ~((whole >= low) & (whole < high))

    return strict(lambda a: np.where(outside(a), 0, a).astype(np.int64), null_where=outside)


# Integers: int64, and NULL where the true result does not fit. NumPy wraps around, so what wrapped is found by its
# signs; mostly the smallest and largest values show that nothing can have.

_LEAST, _MOST = -(2**63), 2**63 - 1


def _span(a: Values) -> tuple[int, int]:
    """Return the smallest and the largest value."""
    return (int(a.min()), int(a.max())) if a.size else (0, 0)


def _checked(
    function: Callable[..., Values], extremes: Callable[..., list[int]], wrapped: Callable[..., Any]
) -> Kernel:
    """Make a kernel of a function of integers that wraps around.

    `extremes` gives, from the spans of the arguments, results between which all others lie; `wrapped`, from the result
    and the arguments, where the result wrapped around.
    """

    def kernel(*args: Vec) -> Vec:
        values = [arg.values for arg in args]
        result, valid = function(*values), all_valid(*(arg.valid for arg in args))
        if all(_LEAST <= one <= _MOST for one in extremes(*map(_span, values))):
            return Vec(result, valid)
        return Vec(result, all_valid(valid, ~wrapped(result, *values)))

    return kernel


add_integers = _checked(
    np.add, lambda a, b: [a[0] + b[0], a[1] + b[1]], lambda result, a, b: ((a ^ result) & (b ^ result)) < 0
)
subtract_integers = _checked(
    np.subtract, lambda a, b: [a[0] - b[1], a[1] - b[0]], lambda result, a, b: ((a ^ b) & (a ^ result)) < 0
)
multiply_integers = _checked(
    np.multiply,
    lambda a, b: [one * two for one in a for two in b],
    # Division undoes a product that is right, and no other: it is off by a multiple of 2^64, and |a| is at most 2^63.
    # The one quotient that does not fit itself is -2^63 / -1.
    lambda result, a, b: (a != 0) & ((np.floor_divide(result, a) != b) | ((a == -1) & (b == _LEAST))),
)


def _remainder(a: Values, b: Values) -> Values:
    """Divide as Java does: the remainder has the sign of the dividend. By a constant, on all cores."""
    if b.ndim > 0 or a.ndim == 0 or not 0 < abs(int(b)) < LIMIT:
        return np.fmod(a, b)
    out, divisor = np.empty_like(a), abs(int(b))
    edges = split(len(a), THREADS if len(a) >= PARALLEL_ROWS else 1)
    in_threads(remainders, [(a[low:high], divisor, out[low:high]) for low, high in itertools.pairwise(edges)])
    return out


remainder_integers = strict(_remainder, lambda _, b: b == 0)
divide_integers = strict(lambda a, b: (a - np.fmod(a, b)) // b, lambda a, b: (b == 0) | ((a == _LEAST) & (b == -1)))
negate_integers = strict(np.negative, lambda a: a == _LEAST)
abs_integers = strict(np.abs, lambda a: a == _LEAST)


# Text.


def like(a: Values, pattern: pa.Scalar) -> Values:
    """LIKE with a constant pattern."""
    return from_arrow(pc.match_substring_regex(a, re2(pattern.as_py())))


def to_text(a: Values) -> Values:
    """Integers in decimal, booleans as true and false."""
    text = pa.array(np.atleast_1d(a)).cast(pa.string())
    return text if a.ndim else text[0]


def concat(*args: Values) -> Values:
    """Texts one after the other."""
    return pc.binary_join_element_wise(*args, pa.scalar(""))


def key(*args: Vec) -> Vec:
    r"""One text that tells several apart: joined by ``|``, with ``\`` before ``\`` and ``|``, and ``\N`` for NULL.

    Examples
    --------
    >>> key(Vec(pa.array(["AB", "A"])), Vec(pa.array(["C", "B|C"]))).values.to_pylist()
    ['AB|C', 'A|B\\|C']
    """
    parts = []
    for values, valid in args:
        escaped = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), "|", "\\|")
        known = pa.scalar(True) if valid is None else pa.array(valid) if valid.ndim else pa.scalar(bool(valid))
        parts.append(pc.if_else(known, escaped, "\\N"))
    return Vec(pc.binary_join_element_wise(*parts, "|", null_handling="emit_null"))


NUMBER_TEXT = "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
INTEGER_TEXT = "[+-]?[0-9]+"


def parse_text(plain: str, convert: Callable[[str], float | int | None], dtype: pa.DataType) -> Kernel:
    """Make a cast of text that matches the regular expression `plain`; all other text gives NULL."""
    pattern = re.compile(plain, flags=re.ASCII)

    def one(text: str | None) -> float | int | None:
        return convert(text) if text is not None and pattern.fullmatch(text) else None

    def kernel(a: Vec) -> Vec:
        if isinstance(a.values, pa.Scalar):
            result = pa.scalar(one(a.values.as_py()), dtype)
            return Vec(from_arrow(result), all_valid(a.valid, np.asarray(result.is_valid)))
        # Each different text is read once: a column of numbers as text repeats itself.
        encoded = a.values.dictionary_encode()
        table = pa.array([one(text) for text in encoded.dictionary.to_pylist()], dtype)
        result = table.take(encoded.indices)
        return Vec(from_arrow(result), all_valid(a.valid, result.is_valid().to_numpy(zero_copy_only=False)))

    return kernel


def int64_or_none(text: str) -> int | None:
    """Return the integer that `text` writes, None when it does not fit 64 bits."""
    # int() itself refuses thousands of digits, even if nearly all are leading zeros.
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > 19:
        return None
    value = -int(digits or "0") if text.startswith("-") else int(digits or "0")
    return value if -(2**63) <= value < 2**63 else None
