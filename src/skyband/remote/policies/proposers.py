"""Proposers: who the candidates of a refresh are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skyband.order import IntArray
from skyband.remote.policies.base import Candidates


class WST:
    """Proposes nothing.

    WST: nobody is a candidate. The replica stays as it was; the worst case in every chart.
    """

    whole_window: ClassVar[bool] = True

    def propose(self, objects: Candidates) -> IntArray:  # noqa: ARG002 - whoever they are
        """Return no row."""
        return np.empty(0, np.int64)


class WSJ:
    """Proposes the objects of the window.

    WSJ: whoever is in the current window is a candidate (ACQUA's window-service join).
    """

    whole_window: ClassVar[bool] = True

    def propose(self, objects: Candidates) -> IntArray:
        """Return all rows."""
        return np.arange(len(objects))


class AT:
    """Proposes the objects of the list, in its order.

    AT: whoever is in the Super-MTK+N list is a candidate: what a coming answer would hold if nothing changed.
    """

    whole_window: ClassVar[bool] = False

    def propose(self, objects: Candidates) -> IntArray:
        """Return the rows that have a place."""
        rows = np.flatnonzero(objects.place >= 0)
        return rows[np.argsort(objects.place[rows], kind="stable")]


@dataclass(frozen=True)
class Near:
    """Proposes the objects of the window that may soon cross the threshold.

    .F: of another proposer's candidates, those whose value is near the threshold of the filter.

    Notes
    -----
    Zahmatkesh et al., the FILTER policy, algorithm 2. `Candidates.distance` is the paper's FDT, 1,000 by default as
    there.
    """

    whole_window: ClassVar[bool] = True
    among: WSJ = WSJ()  # noqa: RUF009 - it has no state

    def propose(self, objects: Candidates) -> IntArray:
        """Return the rows nearer than the filtering distance threshold."""
        rows = self.among.propose(objects)
        return rows[objects.off_threshold()[rows] < objects.distance]
