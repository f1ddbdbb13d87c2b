""".F: of another proposer's candidates, those whose value is near the threshold of the filter.

Notes
-----
Zahmatkesh et al., the FILTER policy, algorithm 2. `Candidates.distance` is the paper's FDT, 1,000 by default as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skyband.order import IntArray
from skyband.policies.base import Candidates
from skyband.policies.wsj import WSJ


@dataclass(frozen=True)
class Near:
    """Proposes the objects of the window that may soon cross the threshold."""

    whole_window: ClassVar[bool] = True
    among: WSJ = WSJ()  # noqa: RUF009 - it has no state

    def propose(self, objects: Candidates) -> IntArray:
        """Return the rows nearer than the filtering distance threshold."""
        rows = self.among.propose(objects)
        return rows[objects.off_threshold()[rows] < objects.distance]
