r"""LIKE without backtracking: patterns as regular expressions whose time is bounded by text times pattern.

The parts of a pattern between its ``%`` have fixed lengths. If a text matches at all, it matches with each inner
part at its leftmost place behind the part before, so no place that was found needs to be given up again. RE2, which
Arrow uses, never backtracks. Java's expressions do, unless each part stands in an atomic group ``(?>…)``.
"""

from __future__ import annotations

import re

from skyband.expressions.sparktext import spark_text

# Java's matcher uses its stack for every part of an expression: this many fit by far.
MAX_PATTERN = 1_000

_TOKENS = re.compile(r"\\.|.", re.DOTALL)


def parts(pattern: str) -> list[list[str | None]]:
    r"""Cut a pattern, whose backslashes have been checked, at its ``%``; in a part None stands for ``_``.

    Examples
    --------
    >>> parts(r"a\%%_")
    [['a', '%'], [None]]
    """
    found: list[list[str | None]] = [[]]
    for token in _TOKENS.findall(pattern):
        if token == "%":
            found.append([])
        else:
            found[-1].append(None if token == "_" else token[-1])
    return found


def re2(pattern: str) -> str:
    r"""RE2 for a pattern.

    Examples
    --------
    >>> print(re2(r"a_\%%"))
    (?s)\Aa.%.*\z
    """
    return r"(?s)\A" + ".*".join(map(_regex, parts(pattern))) + r"\z"


def spark(value: str, pattern: str) -> str:
    r"""Spark SQL for `value` LIKE `pattern`: the steps that Spark can push down, else an expression of Java's.

    Examples
    --------
    >>> spark("`s`", "a%")
    "startswith(`s`, 'a')"
    >>> text = spark("`s`", "%a%_b%c")
    >>> print(bytes.fromhex(text.split("'")[1]).decode())
    (?s)\A(?>.*?a)(?>.*?.b).*c\z
    """
    first, *rest = found = parts(pattern)
    if all(None not in part for part in found):
        text = spark_text("".join(sign or "" for part in found for sign in part))
        if not rest:
            return f"({value} = {text})"
        if rest == [[]]:
            return f"startswith({value}, {text})"
        if not first and len(rest) == 1:
            return f"endswith({value}, {text})"
        if not first and not rest[-1] and len(rest) == 2:
            return f"contains({value}, {text})"
    inner = "".join(f"(?>.*?{_regex(part)})" for part in rest[:-1] if part)
    tail = f".*{_regex(rest[-1])}" if rest else ""
    regex = spark_text(rf"(?s)\A{_regex(first)}{inner}{tail}\z")
    return f"({value} RLIKE {regex})"


def _regex(part: list[str | None]) -> str:
    """Write one part for RE2 and for Java, to which ``.`` is one code point."""
    return "".join("." if sign is None else re.escape(sign) for sign in part)
