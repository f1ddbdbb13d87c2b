"""Texts as Spark SQL literals.

Two traps of Spark are closed here: ``${env:HOME}`` is substituted everywhere, even inside quotes, and what a backslash
means in a string depends on a setting. So a text with anything but harmless characters is written as its bytes.
"""

from __future__ import annotations

import re

_HARMLESS = re.compile(r"[A-Za-z0-9 _.,:;%/+*()\[\]<>=!?@#&|~^-]*")


def spark_text(text: str) -> str:
    """Write a text as a Spark SQL literal.

    Examples
    --------
    >>> spark_text("a b"), spark_text("it's")
    ("'a b'", "cast(X'69742773' AS STRING)")
    """
    return f"'{text}'" if _HARMLESS.fullmatch(text) else f"cast(X'{text.encode().hex().upper()}' AS STRING)"
