"""WSJ: whoever is in the current window is a candidate (ACQUA's window-service join)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skyband.order import IntArray
from skyband.policies.base import Candidates


class WSJ:
    """Proposes the objects of the window."""

    whole_window: ClassVar[bool] = True

    def propose(self, objects: Candidates) -> IntArray:
        """Return all rows."""
        return np.arange(len(objects))
