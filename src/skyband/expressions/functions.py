"""The one table of what is allowed: for each name its types, its meaning in NumPy and its Spark text.

To add a function of numbers, add a line such as ``"cbrt": _math(np.cbrt, "cbrt({0})")`` to `FUNCTIONS`.
Where it gives an integer for integers, add its other meaning to `INTEGERS`.

Spark texts must not raise in ANSI mode nor depend on it: hence ``try_add``, ``try_divide``, ``try_mod``, ``try_cast``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions import like
from skyband.expressions import vectors as v
from skyband.expressions.tree import Type, case_sql

NUMBER, INTEGER, TEXT, BOOLEAN, TIME = Type.NUMBER, Type.INTEGER, Type.TEXT, Type.BOOLEAN, Type.TIME


class Group(Enum):
    """Arguments that must become one common type, and the types it may be."""

    SAME = (NUMBER, INTEGER, TEXT, BOOLEAN)
    COMPARED = (NUMBER, INTEGER, TEXT, BOOLEAN, TIME)
    ORDERED = (NUMBER, INTEGER, TEXT, TIME)
    LEAST = (NUMBER, INTEGER, TEXT)


Slot: TypeAlias = Type | Group
Render: TypeAlias = Callable[..., str]
MANY = 10_000


@dataclass(frozen=True, slots=True)
class Function:
    """One operator or function."""

    kernel: v.Kernel  # its meaning on `skyband.expressions.vectors.Vec`
    spark: Render  # its Spark SQL, from the Spark SQL of its arguments
    takes: Callable[[int], Sequence[Slot]]  # what each argument must be, from the number of arguments
    gives: Slot  # the type of the result, or the group whose common type it has
    arity: tuple[int, int]  # fewest and most arguments
    pattern: bool = False  # whether the last argument is a constant text, which `spark` gets as it is

    def allows(self, count: int) -> bool:
        """Return whether it takes so many arguments."""
        return self.arity[0] <= count <= self.arity[1]

    @property
    def counts(self) -> str:
        """How many arguments it takes, in words."""
        least, most = self.arity
        return str(least) if least == most else f"{least} or more" if most == MANY else f"{least} to {most}"


def _function(
    kernel: v.Kernel, spark: str | Render, takes: Slot, gives: Slot, least: int = 1, most: int | None = None
) -> Function:
    render = spark.format if isinstance(spark, str) else spark
    return Function(kernel, render, lambda count: [takes] * count, gives, (least, most or least))


def _joined(head: str, separator: str = ", ") -> Render:
    return lambda *args: f"{head}({separator.join(args)})"


def _math(
    function: Callable[..., v.Values], spark: str, null_where: Callable[..., v.Values] | None = None, arity: int = 1
) -> Function:
    """Make a function of numbers that gives a number."""
    return _function(v.strict(function, null_where), spark, NUMBER, NUMBER, arity)


def _comparison(function: Callable[..., v.Values], sign: str, group: Group = Group.ORDERED) -> Function:
    return _function(v.strict(function), f"({{0}} {sign} {{1}})", group, BOOLEAN, 2)


def _text(function: Callable[..., v.Values], spark: str | Render, gives: Type = TEXT, most: int = 1) -> Function:
    """Make a function of texts."""
    return _function(v.strict(function), spark, TEXT, gives, 1, most)


def _spark_in(item: str, *choices: str) -> str:
    # Not IN: Spark's hash set for long lists need not follow the comparison rules of numbers.
    return "(" + " OR ".join(f"({item} = {choice})" for choice in choices) + ")"


def _spark_case(*args: str) -> str:
    return f"({case_sql('CASE', *args)})"


def _spark_switch(subject: str, *args: str) -> str:
    whens = [f"({subject} = {arg})" if i % 2 == 0 and i < len(args) - 1 else arg for i, arg in enumerate(args)]
    return _spark_case(*whens)


def _spark_key(*args: str) -> str:
    # What a backslash means in a literal depends on a setting: char(92) is one.
    def escaped(arg: str) -> str:
        doubled = f"replace({arg}, char(92), repeat(char(92), 2))"
        return f"coalesce(replace({doubled}, '|', concat(char(92), '|')), concat(char(92), 'N'))"

    return f"concat_ws('|', {', '.join(map(escaped, args))})"


def _case_slots(count: int) -> Sequence[Slot]:
    return (*(BOOLEAN, Group.SAME) * (count // 2), Group.SAME)


def _switch_slots(count: int) -> Sequence[Slot]:
    return (Group.COMPARED, *(Group.COMPARED, Group.SAME) * (count // 2 - 1), Group.SAME)


def _is_zero(_: v.Values, divisor: v.Values) -> v.Values:
    return divisor == 0


def _at_most(limit: float) -> Callable[..., v.Values]:
    return lambda *args: np.logical_or.reduce(np.broadcast_arrays(*(arg <= limit for arg in args)))


def _spark_whole(function: str) -> str:
    # Spark's floor and ceil give BIGINT and fail on infinity; from 2^52 on every number is whole.
    return f"(CASE WHEN abs({{0}}) < 4503599627370496D THEN cast({function}({{0}}) AS DOUBLE) ELSE {{0}} END)"


def _same(a: v.Vec) -> v.Vec:
    return a


_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"

OPERATORS: dict[str, Function] = {
    "+": _math(np.add, "({0} + {1})", arity=2),
    "-": _math(np.subtract, "({0} - {1})", arity=2),
    "*": _math(np.multiply, "({0} * {1})", arity=2),
    "/": _math(np.divide, "try_divide({0}, {1})", _is_zero, arity=2),
    "%": _math(np.fmod, "try_mod({0}, {1})", _is_zero, arity=2),
    "neg": _math(np.negative, "(-{0})"),
    "=": _comparison(v.equal, "=", Group.COMPARED),
    "<>": _comparison(lambda a, b: ~v.equal(a, b), "<>", Group.COMPARED),
    "<": _comparison(v.less, "<"),
    "<=": _comparison(v.less_equal, "<="),
    ">": _comparison(lambda a, b: v.less(b, a), ">"),
    ">=": _comparison(lambda a, b: v.less_equal(b, a), ">="),
    "<=>": _function(v.null_safe_equal, "({0} <=> {1})", Group.COMPARED, BOOLEAN, 2),
    "and": _function(v.and_, _joined("", " AND "), BOOLEAN, BOOLEAN, 2, MANY),
    "or": _function(v.or_, _joined("", " OR "), BOOLEAN, BOOLEAN, 2, MANY),
    "not": _function(v.strict(np.logical_not), "(NOT {0})", BOOLEAN, BOOLEAN),
    "is null": _function(v.is_null, "({0} IS NULL)", Group.COMPARED, BOOLEAN),
    "between": _function(v.between, "({0} >= {1} AND {0} <= {2})", Group.ORDERED, BOOLEAN, 3),
    "in": _function(v.is_in, _spark_in, Group.COMPARED, BOOLEAN, 2, MANY),
    "like": Function(v.strict(v.like), like.spark, lambda count: [TEXT] * count, BOOLEAN, (2, 2), pattern=True),
    "case": Function(v.case, _spark_case, _case_slots, Group.SAME, (3, MANY)),
    "switch": Function(v.switch, _spark_switch, _switch_slots, Group.SAME, (4, MANY)),
}

FUNCTIONS: dict[str, Function] = {
    "abs": _math(np.abs, "abs({0})"),
    "sign": _math(np.sign, "(signum({0}) + 0D)"),
    "sqrt": _math(np.sqrt, "sqrt({0})"),
    "exp": _math(np.exp, "exp({0})"),
    "ln": _math(np.log, "ln({0})", _at_most(0)),
    "log": _math(lambda base, a: np.log(a) / np.log(base), "log({0}, {1})", _at_most(0), arity=2),
    "log10": _math(np.log10, "log10({0})", _at_most(0)),
    "log2": _math(np.log2, "log2({0})", _at_most(0)),
    "log1p": _math(np.log1p, "log1p({0})", _at_most(-1)),
    "power": _math(v.power, "power({0}, {1})", arity=2),
    "floor": _math(lambda a: np.floor(a) + 0.0, _spark_whole("floor")),
    "ceil": _math(lambda a: np.ceil(a) + 0.0, _spark_whole("ceil")),
    "round": _math(v.round_half_up, "round({0})"),
    "sin": _math(np.sin, "sin({0})"),
    "cos": _math(np.cos, "cos({0})"),
    "tan": _math(np.tan, "tan({0})"),
    "radians": _math(lambda a: a * (np.pi / 180), f"({{0}} * {np.pi / 180!r}D)"),
    "degrees": _math(lambda a: a * (180 / np.pi), f"({{0}} * {180 / np.pi!r}D)"),
    "div": _math(np.divide, "try_divide({0}, {1})", _is_zero, arity=2),
    "unix_micros": _function(_same, "{0}", TIME, INTEGER),
    "isnan": _function(v.is_nan, "isnan({0})", NUMBER, BOOLEAN),
    "nanvl": _function(v.nanvl, "nanvl({0}, {1})", NUMBER, NUMBER, 2),
    "least": _function(v.extreme(v.less), _joined("least"), Group.LEAST, Group.LEAST, 2, MANY),
    "greatest": _function(v.extreme(lambda a, b: v.less(b, a)), _joined("greatest"), Group.LEAST, Group.LEAST, 2, MANY),
    "coalesce": _function(v.coalesce, _joined("coalesce"), Group.SAME, Group.SAME, 1, MANY),
    "nullif": _function(v.nullif, "(CASE WHEN {0} = {1} THEN NULL ELSE {0} END)", Group.SAME, Group.SAME, 2),
    "length": _text(lambda a: v.from_arrow(pc.utf8_length(a)).astype(np.int64), "cast(length({0}) AS BIGINT)", INTEGER),
    "lower": _text(pc.ascii_lower, f"translate({{0}}, '{_UPPER}', '{_LOWER}')"),
    "upper": _text(pc.ascii_upper, f"translate({{0}}, '{_LOWER}', '{_UPPER}')"),
    "trim": _text(lambda a: pc.utf8_trim(a, characters=" "), "trim({0})"),
    "concat": _text(v.concat, _joined("concat"), most=MANY),
    "key": _function(v.key, _spark_key, TEXT, TEXT, 1, MANY),
}


def _whole(kernel: v.Kernel, spark: str, arity: int = 1) -> Function:
    """Make a function of integers that gives an integer."""
    return _function(kernel, spark, INTEGER, INTEGER, arity)


def _sealed(text: str) -> str:
    # Catalyst gathers the constants of nested sums and products of integers, and then other things overflow, or
    # nothing does. It does not look behind a shift.
    return f"shiftright({text}, 0)"


# What differs where all arguments are integers: these stay int64, and what does not fit is NULL.
INTEGERS: dict[str, Function] = {
    "+": _whole(v.add_integers, _sealed("try_add({0}, {1})"), 2),
    "-": _whole(v.subtract_integers, "try_subtract({0}, {1})", 2),
    "*": _whole(v.multiply_integers, _sealed("try_multiply({0}, {1})"), 2),
    "%": _whole(v.remainder_integers, "try_mod({0}, {1})", 2),
    "neg": _whole(v.negate_integers, "try_subtract(0L, {0})"),
    "abs": _whole(v.abs_integers, _sealed("try_multiply({0}, cast(signum({0}) AS BIGINT))")),
    "floor": _whole(_same, "{0}"),
    "ceil": _whole(_same, "{0}"),
    "round": _whole(_same, "{0}"),
    "div": _whole(
        v.divide_integers, "(CASE WHEN {1} = -1L THEN try_subtract(0L, {0}) ELSE {0} div nullif({1}, 0L) END)", 2
    ),
    "unix_micros": _whole(_same, "{0}"),
}

ALIASES = {
    "pow": "power", "ceiling": "ceil", "signum": "sign", "mod": "%", "char_length": "length",
    "character_length": "length", "nvl": "coalesce", "ifnull": "coalesce", "isnull": "is null",
}  # fmt: skip


def _cast(kernel: v.Kernel, spark: str, gives: Type) -> Function:
    return _function(kernel, spark, gives, gives)


def _spark_text(plain: str, target: str) -> str:
    # "(?!.)" with "(?s)" is the very end: "$" would let a last newline pass, "\z" needs a backslash.
    pattern = plain.replace("{", "{{").replace("}", "}}")
    return f"(CASE WHEN {{0}} RLIKE '(?s)^{pattern}(?!.)' THEN try_cast({{0}} AS {target}) END)"


_AS_FLOAT64 = v.strict(lambda a: a.astype(np.float64))
_AS_INT64 = v.strict(lambda a: a.astype(np.int64))
_TO_INT32 = v.to_integer(-(2.0**31), 2.0**31)
_TEXT_TO_NUMBER = v.parse_text(v.NUMBER_TEXT, float, pa.float64())
_TEXT_TO_INT64 = v.parse_text(v.INTEGER_TEXT, v.int64_or_none, pa.int64())
_SPARK_INT32 = "cast(try_cast({0} AS INT) AS BIGINT)"
_SPARK_BIGINT = "(CASE WHEN {0} < 9223372036854775808D THEN try_cast({0} AS BIGINT) END)"


def _text_to_int32(a: v.Vec) -> v.Vec:
    return _TO_INT32(_TEXT_TO_INT64(a))


# target → type of the argument → how; what is missing (a number as text, anything as a boolean) is refused
# because Java and Python write numbers differently, or because a comparison says it better.
CASTS: dict[str, dict[Type, Function]] = {
    "double": {
        NUMBER: _cast(_same, "{0}", NUMBER),
        INTEGER: _cast(_AS_FLOAT64, "cast({0} AS DOUBLE)", NUMBER),
        BOOLEAN: _cast(_AS_FLOAT64, "cast({0} AS DOUBLE)", NUMBER),
        TEXT: _cast(_TEXT_TO_NUMBER, _spark_text(v.NUMBER_TEXT, "DOUBLE"), NUMBER),
    },
    "bigint": {
        NUMBER: _cast(v.to_integer(-(2.0**63), 2.0**63), _SPARK_BIGINT, INTEGER),
        INTEGER: _cast(_same, "{0}", INTEGER),
        BOOLEAN: _cast(_AS_INT64, "cast({0} AS BIGINT)", INTEGER),
        TEXT: _cast(_TEXT_TO_INT64, _spark_text(v.INTEGER_TEXT, "BIGINT"), INTEGER),
    },
    "int": {
        NUMBER: _cast(_TO_INT32, _SPARK_INT32, INTEGER),
        INTEGER: _cast(_TO_INT32, _SPARK_INT32, INTEGER),
        BOOLEAN: _cast(_AS_INT64, "cast({0} AS BIGINT)", INTEGER),
        TEXT: _cast(_text_to_int32, f"cast({_spark_text(v.INTEGER_TEXT, 'INT')} AS BIGINT)", INTEGER),
    },
    "string": {
        INTEGER: _cast(v.strict(v.to_text), "cast({0} AS STRING)", TEXT),
        BOOLEAN: _cast(v.strict(v.to_text), "cast({0} AS STRING)", TEXT),
        TEXT: _cast(_same, "{0}", TEXT),
    },
}
CAST_TYPES = {"double": NUMBER, "bigint": INTEGER, "int": INTEGER, "string": TEXT}
