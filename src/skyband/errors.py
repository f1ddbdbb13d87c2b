"""What can go wrong, by kind; every message says what was received, what is allowed and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class SkybandError(Exception):
    """Base of every error that this library raises on purpose."""


class QueryError(SkybandError, ValueError):
    """A query that cannot be asked; holds every problem found in it, not only the first.

    Parameters
    ----------
    problems
        One sentence each.
    name
        The query's name, when it has one.
    """

    def __init__(self, problems: str | Sequence[str], name: str | None = None) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        self.name = name
        head = f"query {name!r}: " if name else ""
        if len(self.problems) == 1:
            text = head + self.problems[0]
        else:
            lines = "".join(f"\n  - {problem}" for problem in self.problems)
            text = f"{head}{len(self.problems)} problems:{lines}"
        super().__init__(text)


class ExpressionError(QueryError):
    """A score, filter or partition that cannot be parsed or is not allowed.

    Parameters
    ----------
    message
        What is wrong and what to do.
    text
        The expression as it was written.
    position
        Where in the text, from 0; None when no single place is to blame.
    """

    def __init__(self, message: str, text: str, position: int | None = None) -> None:
        self.text = text
        self.position = position
        shown = f"{message}\n    {text}"
        if position is not None:
            shown += "\n    " + " " * position + "^"
        super().__init__(shown)


class LanguageError(QueryError):
    r"""A text in RSP-QL or SQL that is no query; shows the line, and points into it.

    Parameters
    ----------
    message
        What is wrong and what to do.
    text
        The whole text as it was written.
    position
        Where in the text, from 0; None when no single place is to blame.

    Attributes
    ----------
    line, column
        The place, from 1; None when no single place is to blame.

    Examples
    --------
    >>> error = LanguageError("'?' has no name", "SELECT ?a\nWHERE ?", 16)
    >>> error.line, error.column
    (2, 7)
    >>> print(error)
    '?' has no name (line 2, column 7)
        WHERE ?
              ^
    """

    def __init__(self, message: str, text: str, position: int | None = None) -> None:
        self.message: str = message
        self.text: str = text
        self.position: int | None = position
        self.line: int | None = None
        self.column: int | None = None
        shown = message
        if position is not None:
            begin = text.rfind("\n", 0, position) + 1
            self.line, self.column = text.count("\n", 0, position) + 1, position - begin + 1
            whole = text[begin:].split("\n", 1)[0]
            # Tabs and their kin take one place, so that the caret stands under what is meant.
            line = "".join(" " if character.isspace() else character for character in whole).rstrip()
            shown += f" (line {self.line}, column {self.column})\n    {line}\n    {' ' * (self.column - 1)}^"
        super().__init__(shown)


class InputError(SkybandError, ValueError):
    """Data, a file or an option that cannot be used as given."""


class TooManyWindows(InputError):  # noqa: N818 - says it all
    """A leap in event time that makes a query's windows absurdly many; `query` names it where it is known."""

    query: str | None = None


class SnapshotError(SkybandError, ValueError):
    """A snapshot of another version, of another kind, or damaged."""


@contextmanager
def optional(who: str, extra: str) -> Iterator[None]:
    """Import in the block what not everybody has installed: `who` needs it, an `extra` of this package brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "skyband":
            raise
        msg = f"{who} needs the package {package!r}, which is missing; install it: pip install 'skyband[{extra}]'"
        raise InputError(msg) from None
