"""AT: whoever is in the Super-MTK+N list is a candidate: what a coming answer would hold if nothing changed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skyband.order import IntArray
from skyband.policies.base import Candidates


class AT:
    """Proposes the objects of the list, in its order."""

    whole_window: ClassVar[bool] = False

    def propose(self, objects: Candidates) -> IntArray:
        """Return the rows that have a place."""
        rows = np.flatnonzero(objects.place >= 0)
        return rows[np.argsort(objects.place[rows], kind="stable")]
