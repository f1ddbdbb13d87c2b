"""Expressions of SPARQL as trees of `skyband.expressions`, and back as text.

What SPARQL lacks has a name: ``mod(?a, ?b)``, ``like(?a, "A%")``, ``isnull(?a)``, and every function of
`skyband.expressions` besides. So each tree can be written, and reads back as the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rdflib import XSD, BNode, Literal, URIRef, Variable

from skyband.expressions.functions import ALIASES, FUNCTIONS, OPERATORS
from skyband.expressions.tree import FALSE, NULL, TRUE, Call, Node, Type, negated
from skyband.expressions.tree import Literal as Constant
from skyband.expressions.vectors import int64_or_none
from skyband.languages.mapping import Function, last_name
from skyband.languages.rspql.clauses import FUNCTION_NAMESPACE, Statement

_SIGNS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_BUILTINS = {
    "ABS": "abs", "CEIL": "ceil", "FLOOR": "floor", "ROUND": "round", "STRLEN": "length", "UCASE": "upper",
    "LCASE": "lower", "CONCAT": "concat", "COALESCE": "coalesce",
}  # fmt: skip
_PATTERNS = {"CONTAINS": "%{}%", "STRSTARTS": "{}%", "STRENDS": "%{}"}
_NAMED = {**ALIASES, "same": "<=>"}
_CALLABLE = {*FUNCTIONS, *_NAMED.values(), "like", "between", "case", "switch"}
_CASTS = {XSD.double: "double", XSD.integer: "bigint", XSD.int: "int", XSD.string: "string"}
_NUMBERS = {XSD.decimal, XSD.double, XSD.float}
_MOMENTS = {XSD.dateTime, XSD.date}


class Terms:
    """Turns the expressions of one statement into trees; `functions` are those that the mapping defines."""

    def __init__(self, statement: Statement, functions: Mapping[str, Function]) -> None:
        self.statement, self.functions = statement, functions

    def fail(self, message: str, *words: str, iri: str | None = None) -> NoReturn:
        """Raise an error that points to an IRI, or to the first of some words in the query."""
        found = self.statement.find(*words) if iri is None else self.statement.find_iri(iri)
        if found is None or found.says("WINDOW"):
            windows = (part.token for part in self.statement.parts if part.kind == "window")
            found = next(windows, self.statement.head)
        self.statement.text.fail(message, found)

    def convert(self, term: Any, values: Mapping[str, Node]) -> Node:
        """Return the tree of an expression, with the values of its variables."""
        if isinstance(term, Variable):
            if str(term) not in values:
                message = f"?{term} has no value: no pattern and no BIND before gives it one"
                self.fail(message, f"?{term}", f"${term}")
            return values[str(term)]
        if isinstance(term, Literal):
            return self.constant(term)
        if isinstance(term, URIRef):
            return Constant(Type.TEXT, str(term))
        if isinstance(term, BNode):
            self.fail("a blank node in an expression is not supported")
        name = getattr(term, "name", type(term).__name__)
        match name.split("_"):
            case ["RelationalExpression"]:
                return self._relation(term, values)
            case ["ConditionalAndExpression"]:
                return Call("and", self.all([term.expr, *term.other], values))
            case ["ConditionalOrExpression"]:
                return Call("or", self.all([term.expr, *term.other], values))
            case ["AdditiveExpression" | "MultiplicativeExpression"]:
                return self._arithmetic(term, values)
            case ["UnaryMinus"]:
                return self._minus(term.expr, values)
            case ["UnaryPlus"]:
                return self.convert(term.expr, values)
            case ["UnaryNot"]:
                return self._not(term.expr, values)
            case ["Function"]:
                return self._function(term, values)
            case ["Builtin", *words]:
                return self._builtin("_".join(words), term, values)
        self.fail(f"{name.removeprefix('Aggregate_')} is not supported here")

    def all(self, terms: Sequence[Any], values: Mapping[str, Node]) -> tuple[Node, ...]:
        """Return the trees of several expressions."""
        return tuple(self.convert(term, values) for term in terms)

    def constant(self, term: Literal) -> Node:
        """Return a constant."""
        kind, text = term.datatype, str(term)
        if term.language is not None:
            self.fail(f"the language of {term.n3()} is not supported; write the text alone")
        if kind is None or kind == XSD.string or kind in _MOMENTS:
            return Constant(Type.TEXT, text)
        if kind == XSD.boolean and text in ("true", "false"):
            return TRUE if text == "true" else FALSE
        if kind == XSD.integer and re.fullmatch(r"[+-]?\d+", text):
            if (value := int64_or_none(text)) is not None:
                return Constant(Type.INTEGER, str(value))
            self.fail(f"the integer {text} does not fit 64 bits; write {text}.0 for a number", text)
        if kind in _NUMBERS and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
            if math.isfinite(float(text)):
                return Constant(Type.NUMBER, repr(float(text)))
            self.fail(f"{text} is not a number that fits 64 bits", text)
        self.fail(f"the constant {term.n3()} is not supported; write a number, a text, true or false, or a time")

    # Operators.

    def _relation(self, term: Any, values: Mapping[str, Node]) -> Node:
        left = self.convert(term.expr, values)
        if term.op in _SIGNS:
            return Call(_SIGNS[term.op], (left, self.convert(term.other, values)))
        choices = term.other if isinstance(term.other, list) else []
        if not choices:
            self.fail("IN wants a list that is not empty: ?x IN (1, 2)", "IN")
        found = Call("in", (left, *self.all(choices, values)))
        return found if term.op == "IN" else Call("not", (found,))

    def _arithmetic(self, term: Any, values: Mapping[str, Node]) -> Node:
        result = self.convert(term.expr, values)
        for sign, other in zip(term.op, term.other, strict=True):
            result = Call(str(sign), (result, self.convert(other, values)))
        return result

    def _minus(self, inner: Any, values: Mapping[str, Node]) -> Node:
        if isinstance(inner, Literal) and inner.datatype in (XSD.integer, *_NUMBERS):  # the least has no positive
            text = str(inner)
            return self.constant(Literal(text[1:] if text.startswith("-") else f"-{text}", datatype=inner.datatype))
        return negated(self.convert(inner, values))

    def _not(self, inner: Any, values: Mapping[str, Node]) -> Node:
        """Return NOT; that a variable is not bound is ``is null``, without a NOT."""
        if getattr(inner, "name", None) == "Builtin_BOUND":
            return Call("is null", (self.convert(inner.arg, values),))
        return Call("not", (self.convert(inner, values),))

    # Functions.

    def _builtin(self, name: str, term: Any, values: Mapping[str, Node]) -> Node:
        if name == "BOUND":
            return Call("not", (Call("is null", (self.convert(term.arg, values),)),))
        if name == "IF":
            return Call("case", self.all([term.arg1, term.arg2, term.arg3], values))
        if name in _PATTERNS:
            return self._pattern(name, term, values)
        if name not in _BUILTINS:
            self.fail(f"the function {name}() is not supported", name)
        arg = term.arg
        return self._known(name, _BUILTINS[name], self.all(arg if isinstance(arg, list) else [arg], values))

    def _pattern(self, name: str, term: Any, values: Mapping[str, Node]) -> Node:
        text, part = self.all([term.arg1, term.arg2], values)
        if not isinstance(part, Constant) or part.type is not Type.TEXT:
            self.fail(f"{name}() wants a text in quotes as its second argument", name)
        quoted = re.sub(r"([\\%_])", r"\\\1", part.text)
        return Call("like", (text, Constant(Type.TEXT, _PATTERNS[name].format(quoted))))

    def _function(self, term: Any, values: Mapping[str, Node]) -> Node:
        iri = term.iri
        args = self.all(term.expr or [], values)
        if iri in _CASTS:
            if len(args) != 1:
                self.fail(f"{last_name(iri)}() takes 1 argument and got {len(args)}")
            return Call(f"cast {_CASTS[iri]}", args)
        name = last_name(str(iri))
        if name in self.functions:
            wanted = len(self.functions[name].parameters)
            if wanted != len(args):
                self.fail(f"{name}() takes {wanted} arguments and got {len(args)}", name)
            return self.functions[name].call(args)
        own = str(iri).startswith(FUNCTION_NAMESPACE)
        if own and name.lower() == "null" and not args:
            return NULL
        inner = _NAMED.get(name.lower(), name.lower())
        if not own or inner not in _CALLABLE:
            message = f"the function {name}() is not known; define it in the mapping, under [functions]"
            self.fail(f'{message}: "{name}(a, b)" = "a + b"', name)
        return self._known(name, "ln" if (inner, len(args)) == ("log", 1) else inner, args)

    def _known(self, written: str, name: str, args: tuple[Node, ...]) -> Node:
        function = FUNCTIONS.get(name) or OPERATORS[name]
        odd = {"case": 1, "switch": 0}.get(name, len(args) % 2)
        if not function.allows(len(args)) or len(args) % 2 != odd:
            self.fail(f"{written}() takes {function.counts} arguments and got {len(args)}", written)
        if name == "like" and not (isinstance(args[1], Constant) and args[1].type is Type.TEXT):
            self.fail("the pattern of like() must be a text such as 'A%'", written)
        return Call(name, args)
