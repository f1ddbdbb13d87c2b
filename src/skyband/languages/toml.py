"""Texts in files, and TOML within limits: for one key of some thousand parts tomllib needs seconds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from skyband.errors import InputError

MAX_PARTS, MAX_DIGITS = 20, 400

# Strings and comments, of which nothing is a key or a number.
_QUOTED = re.compile(r"""\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}.*?'{3}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*""", re.DOTALL)
_BARE = re.compile(r"[^=,\[\]{}\n]+")


def read_toml(text: str) -> dict[str, Any]:
    """Return what a TOML text holds; raises InputError when it is no TOML, or beyond the limits.

    Examples
    --------
    >>> read_toml("a.b = 1")
    {'a': {'b': 1}}
    >>> read_toml(".".join("a" * 21) + " = 1")
    Traceback (most recent call last):
    skyband.errors.InputError: a key has 21 parts; at most 20 are allowed
    """
    for bare in _BARE.findall(_QUOTED.sub("s", text)):
        if (parts := bare.count(".") + 1) > MAX_PARTS:
            msg = f"a key has {parts:,} parts; at most {MAX_PARTS} are allowed"
            raise InputError(msg)
        if (digits := len(bare.strip())) > MAX_DIGITS and not bare.strip("0123456789_+- "):
            msg = f"a number has {digits:,} digits; at most {MAX_DIGITS} are allowed"
            raise InputError(msg)
    try:
        return tomllib.loads(text)
    except RecursionError:
        msg = "the text is nested too deeply"
        raise InputError(msg) from None
    except ValueError as error:
        msg = f"the text is no TOML: {error}"
        raise InputError(msg) from None


def read_text(path: Path) -> str:
    """Return what is in a text file; raises InputError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        msg = f"cannot read {path}: {why}"
        raise InputError(msg) from None


def load_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds; raises InputError with its name."""
    text = read_text(path)
    try:
        return read_toml(text)
    except InputError as error:
        msg = f"{path}: {error}"
        raise InputError(msg) from None
