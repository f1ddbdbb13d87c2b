"""Windows of RSP-QL: ``[RANGE 9m STEP 3m]``, ISO durations, numbers of events; read and written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from skyband.errors import QueryError
from skyband.languages.rspql.tokens import Text, Token
from skyband.times import DAY, HOUR, MILLISECOND, MINUTE, SECOND, parse_duration
from skyband.windows import Closed, Window

MAX_LENGTH = 200
_ISO = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE | re.ASCII
)
_MONTHS = re.compile(r"P.*\d+[YM](?!.*T.*M)", re.IGNORECASE)
_COUNT = re.compile(r"(\d+)\s*(?:EVENTS?|ROWS?)", re.IGNORECASE)
_EXAMPLE = "[RANGE 9m STEP 3m], [RANGE PT1H STEP PT10M] or [RANGE 100 EVENTS STEP 1 EVENT]"
_WORDS = ("RANGE", "ROWS", "STEP", "SLIDE", "TUMBLING", "OFFSET", "CLOSED")


def read_window(text: Text, bracketed: Sequence[Token]) -> Window:
    """Read a window: the tokens between its brackets, and the brackets.

    Examples
    --------
    >>> text = Text("[RANGE PT1H STEP 10m OFFSET 90s]")
    >>> read_window(text, text.tokens)
    Window('1 hour', slide='10 minutes', offset='90 seconds', closed='right')
    """
    opening, *tokens, closing = bracketed
    given = _pair(text, tokens) if opening.text == "(" else _clauses(text, tokens, closing)
    size, slide = given.get("RANGE", given.get("ROWS")), given.get("STEP", given.get("SLIDE"))
    if size is None:
        text.fail(f"a window has a RANGE: {_EXAMPLE}", opening)
    counts = "ROWS" in given or _COUNT.fullmatch(size[0]) is not None
    extents: dict[str, Any] = {"size": _extent(text, size, "ROWS" in given)}
    if slide is not None:
        extents["slide"] = _extent(text, slide, "ROWS" in given)
    if "OFFSET" in given:
        extents["offset"] = _extent(text, given["OFFSET"], False)
    closed = given.get("CLOSED", ("left" if counts else "right", opening))
    try:
        return Window(**extents, closed=cast(Closed, closed[0].lower()))
    except QueryError as error:
        text.fail("; ".join(error.problems), opening)


def _pair(text: Text, tokens: Sequence[Token]) -> dict[str, tuple[str, Token]]:
    """Read ``10m, 1m``: the size and the slide."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    if len(parts) > 2 or not all(parts):
        text.fail("a window in brackets has a size and a slide: W(10m, 1m)", tokens[0] if tokens else None)
    values = [(text.text[part[0].start : part[-1].end], part[0]) for part in parts]
    return dict(zip(("RANGE", "STEP"), values, strict=False))


def _clauses(text: Text, tokens: Sequence[Token], closing: Token) -> dict[str, tuple[str, Token]]:
    """Return what is said for each word: the text behind it, and where that stands."""
    given: dict[str, tuple[str, Token]] = {}
    for token in tokens:
        if token.says("TRIPLES", "ELEMENTS"):
            text.fail(f"windows of {token.text.upper()} are not supported; a window counts events: {_EXAMPLE}", token)
    places = [
        at
        for at, token in enumerate(tokens)
        if token.says(*_WORDS) and not (token.says("ROWS") and at and tokens[at - 1].kind == "number")
    ]
    if not places or places[0] != 0:
        text.fail(f"a window begins with RANGE: {_EXAMPLE}", tokens[0] if tokens else closing)
    for at, after in zip(places, [*places[1:], len(tokens)], strict=True):
        word, value = tokens[at], tokens[at + 1 : after]
        name = word.text.upper()
        if name in given:
            text.fail(f"{name} is given twice", word)
        if name == "TUMBLING" and not value:
            continue
        if name == "TUMBLING" or not value:
            text.fail(f"{name} {'takes nothing' if value else 'wants a value'}: {_EXAMPLE}", word)
        given[name] = (text.text[value[0].start : value[-1].end], value[0])
    if "CLOSED" in given and given["CLOSED"][0].upper() not in ("LEFT", "RIGHT"):
        text.fail("CLOSED is LEFT for [open, close) or RIGHT for (open, close]", given["CLOSED"][1])
    return given


def _extent(text: Text, given: tuple[str, Token], rows: bool) -> str | int:
    """Return a length of time in microseconds, or a number of events as text."""
    said, token = given
    said = re.sub(r"""^(["'])(.*)\1(\^\^\S+)?$""", r"\2", said)
    if rows and said.isdecimal():
        return f"{said} events"
    if count := _COUNT.fullmatch(said):
        return f"{count[1]} events"
    if len(said) > MAX_LENGTH:
        text.fail(f"this length has {len(said):,} characters; at most {MAX_LENGTH} are allowed", token)
    short = said
    if (iso := _ISO.fullmatch(said)) and any(iso.groups()):
        short = re.sub("[PT]", "", said, flags=re.IGNORECASE)
    elif _MONTHS.fullmatch(said):
        message = f"{said} has months or years, which have no fixed length; use weeks, days, hours, minutes, seconds"
        text.fail(message, token)
    try:
        return parse_duration(short, "this length of time")
    except QueryError as error:
        text.fail("; ".join(error.problems).replace(repr(short), repr(said)), token)


def write_window(window: Window) -> str:
    """Write a window so that it reads back as the same.

    Examples
    --------
    >>> write_window(Window("9 minutes", slide="3 minutes", closed="right"))
    '[RANGE 9m STEP 3m]'
    >>> write_window(Window("100 events", slide="1 event"))
    '[RANGE 100 EVENTS STEP 1 EVENTS]'
    """
    if window.counts:
        return f"[RANGE {window.size} EVENTS STEP {window.slide} EVENTS]"
    parts = [f"RANGE {_short(window.size)} STEP {_short(window.slide)}"]
    if window.offset:
        parts.append(f"OFFSET {_short(window.offset)}")
    if window.closed == "left":
        parts.append("CLOSED LEFT")
    return f"[{' '.join(parts)}]"


def _short(extent: int) -> str:
    for unit, letter in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s"), (MILLISECOND, "ms")):
        if extent % unit == 0:
            return f"{extent // unit}{letter}"
    return f"{extent}us"
