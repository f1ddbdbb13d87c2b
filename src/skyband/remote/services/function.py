"""A Python function as a service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skyband.remote.services.base import Id


class Function:
    """Any function from ids to values.

    Nobody can interrupt a function: where it takes too long, the answer goes out without it, and its thread lasts
    until it returns. Its value is then used for the next answer.

    Parameters
    ----------
    function
        Takes a list of ids and returns a mapping: the value of each, None for those that do not exist.

    Examples
    --------
    >>> followers = {"ann": 120.0, "bob": 80.0}
    >>> Function(lambda ids: {name: followers.get(name) for name in ids}).fetch(["ann", "eve"])
    {'ann': 120.0, 'eve': None}
    """

    def __init__(self, function: Callable[[Sequence[Id]], Mapping[Any, Any]]) -> None:
        self.function = function

    def fetch(self, ids: Sequence[Id]) -> Mapping[Any, Any]:
        """Call the function."""
        return self.function(list(ids))
