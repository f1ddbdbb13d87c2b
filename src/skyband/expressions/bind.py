"""Types: which column is meant, what each part of a tree is, and where a value must be converted."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from skyband.errors import InputError
from skyband.expressions.functions import CAST_TYPES, CASTS, FUNCTIONS, INTEGERS, OPERATORS, Function, Group, Slot
from skyband.expressions.tree import Call, Column, Literal, Node, Type, to_sql
from skyband.times import microseconds_of


@dataclass(frozen=True, slots=True)
class Typed:
    """A node with its type; a column has an Arrow type as well, a call has a function."""

    node: Node
    type: Type
    arrow: pa.DataType | None = None
    function: Function | None = None
    args: tuple[Typed, ...] = ()


def bind_tree(node: Node, schema: pa.Schema) -> Typed:
    """Resolve the columns and types of a tree over a schema.

    Examples
    --------
    >>> bind_tree(Call("+", (Column("a"), Column("a"))), pa.schema([("a", pa.int32())])).type
    <Type.INTEGER: 'integer'>
    """
    typed = _bind(node, schema)
    # Nothing decides the type of a bare NULL.
    return Typed(typed.node, Type.NUMBER) if typed.type is Type.NULL else typed


def _bind(node: Node, schema: pa.Schema) -> Typed:
    if isinstance(node, Column):
        return _column(node, schema)
    if isinstance(node, Literal):
        return Typed(node, node.type)
    args = [_bind(arg, schema) for arg in node.args]
    if node.name.startswith("cast "):
        return _cast(node, args[0])
    function = _function(node.name, {arg.type for arg in args})
    slots = function.takes(len(args))
    wanted = {slot: _common(node, slot, args, slots) for slot in set(slots)}
    converted = tuple(_convert(node, arg, wanted[slot]) for arg, slot in zip(args, slots, strict=True))
    gives = function.gives
    return Typed(node, wanted[gives] if isinstance(gives, Group) else gives, None, function, converted)


def _function(name: str, types: set[Type]) -> Function:
    """Look up a function: some have a meaning of their own on integers."""
    if name in INTEGERS and types - {Type.NULL} == {Type.INTEGER}:
        return INTEGERS[name]
    return OPERATORS.get(name) or FUNCTIONS[name]


# Columns.


def find_column(name: str, schema: pa.Schema) -> pa.Field:
    """Find a column: by its exact name, else by a unique name that differs in upper and lower case only."""
    matches = [field for field in schema if field.name == name]
    matches = matches or [field for field in schema if field.name.lower() == name.lower()]
    if len(matches) == 1:
        return matches[0]
    if matches:
        message = f"{name!r} could be any of the columns {', '.join(repr(field.name) for field in matches)}"
        raise InputError(message)
    near = difflib.get_close_matches(name, schema.names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    message = f"there is no column {name!r}{hint}; there are {', '.join(map(repr, schema.names)) or 'none'}"
    raise InputError(message)


def _column(node: Column, schema: pa.Schema) -> Typed:
    field = find_column(node.name, schema)
    found = _type_of(field.type)
    if found is None:
        message = (
            f"column {field.name!r} is {field.type}, which expressions cannot use; they take integers up to "
            "64 bits signed, float32, float64, decimal, boolean, string, timestamp and date: cast it before"
        )
        raise InputError(message)
    return Typed(Column(field.name), found, field.type)


def _type_of(arrow: pa.DataType) -> Type | None:
    """Return our type of an Arrow type. uint64 has none: it fits neither int64 nor float64 nor Spark."""
    types = pa.types
    if types.is_dictionary(arrow):
        arrow = arrow.value_type
        return Type.TEXT if types.is_string(arrow) or types.is_large_string(arrow) else None
    checks = {
        Type.INTEGER: types.is_integer(arrow) and not types.is_uint64(arrow),
        Type.NUMBER: types.is_float32(arrow) or types.is_float64(arrow) or types.is_decimal(arrow),
        Type.BOOLEAN: types.is_boolean(arrow),
        Type.TEXT: types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow),
        Type.TIME: types.is_timestamp(arrow) or types.is_date(arrow),
    }
    return next((found for found, holds in checks.items() if holds), None)


# Calls.


def _common(node: Call, slot: Slot, args: Sequence[Typed], slots: Sequence[Slot]) -> Type:
    """Return the type that all arguments of one slot become."""
    if isinstance(slot, Type):
        return slot
    members = [arg for arg, own in zip(args, slots, strict=True) if own is slot]
    types = {arg.type for arg in members} - {Type.NULL}
    if Type.TIME in types and Type.TIME in slot.value:
        return Type.TIME
    if types == {Type.INTEGER, Type.NUMBER}:
        return Type.NUMBER
    if len(types) > 1:
        message = f"{_name(node)} needs values of one type: {', '.join(map(_describe, members))}"
        raise InputError(message)
    found = types.pop() if types else Type.NUMBER
    if found not in slot.value:
        message = f"{_name(node)} takes {' or '.join(slot.value)}: {_describe(members[0])}"
        raise InputError(message)
    return found


def _convert(node: Call, arg: Typed, wanted: Type) -> Typed:
    """Make `arg` a value of the type `wanted`, or say why it cannot be."""
    if arg.type is wanted:
        return arg
    if arg.type is Type.NULL:
        return Typed(arg.node, wanted)
    if arg.type is Type.INTEGER and wanted is Type.NUMBER:
        if isinstance(arg.node, Literal) and arg.node.type is Type.INTEGER:
            return Typed(Literal(wanted, repr(float(arg.node.text))), wanted)
        return Typed(arg.node, wanted, None, CASTS["double"][Type.INTEGER], (arg,))
    if wanted is Type.TIME and isinstance(arg.node, Literal) and arg.type is Type.TEXT:
        return Typed(Literal(Type.TIME, str(_micros(arg.node.text))), Type.TIME)
    hints = {
        (Type.TEXT, Type.NUMBER): f"; if it holds numbers, write CAST({to_sql(arg.node)} AS DOUBLE)",
        (Type.BOOLEAN, Type.NUMBER): f"; write IF({to_sql(arg.node)}, 1, 0)",
        (Type.TEXT, Type.TIME): "; a time compares with times and with literals like '2024-01-31T23:59:59Z'",
    }
    hint = hints.get((arg.type, wanted), "")
    message = f"{_name(node)} needs {_an(wanted)}, and {_describe(arg)}{hint}"
    raise InputError(message)


def _cast(node: Call, arg: Typed) -> Typed:
    target = node.name.removeprefix("cast ")
    overloads = CASTS[target]
    if arg.type is Type.NULL:
        return Typed(arg.node, CAST_TYPES[target])
    if arg.type not in overloads:
        message = f"CAST to {target.upper()} takes {' or '.join(overloads)}: {_describe(arg)}"
        raise InputError(message)
    return Typed(node, CAST_TYPES[target], None, overloads[arg.type], (arg,))


_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)


def _micros(text: str) -> int:
    """Microseconds since 1970 of an ISO time; without a zone it is in UTC."""
    try:
        time = datetime.fromisoformat(text) if _ISO.fullmatch(text) else None
    except ValueError:
        time = None
    if time is None:
        message = f"{text!r} is not a time; write it like '2024-01-31' or '2024-01-31T23:59:59.5Z'"
        raise InputError(message)
    return microseconds_of(time)


def _an(wanted: Type) -> str:
    return {"integer": "an integer", "text": "a text", "time": "a time"}.get(wanted, f"a {wanted}")


def _name(node: Call) -> str:
    shown = {"neg": "-", "switch": "case"}.get(node.name, node.name)
    return repr(shown.upper() if shown.split()[0] in ("and", "or", "not", "is", "in", "like", "case") else shown)


def _describe(arg: Typed) -> str:
    """Say what an argument is, for example "'symbol' is string"."""
    if isinstance(arg.node, Column) and arg.arrow is not None:
        return f"{arg.node.name!r} is {arg.arrow}"
    return f"{to_sql(arg.node)} is {arg.type}"
