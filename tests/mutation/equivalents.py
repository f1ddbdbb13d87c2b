"""Changes that no test can notice, by file: a reason, and the changes that it is true of."""

from __future__ import annotations

EQUIVALENT: dict[str, dict[str, list[str]]] = {}
