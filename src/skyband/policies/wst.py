"""WST: nobody is a candidate. The replica stays as it was; the worst case in every chart."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skyband.order import IntArray
from skyband.policies.base import Candidates


class WST:
    """Proposes nothing."""

    whole_window: ClassVar[bool] = True

    def propose(self, objects: Candidates) -> IntArray:  # noqa: ARG002 - whoever they are
        """Return no row."""
        return np.empty(0, np.int64)
