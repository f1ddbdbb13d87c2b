"""ASM, all selection maintenance: the whole list. The best case in every chart.

Give it no budget: then all of the list is refreshed, which no live system can promise. A budget binds it like every
other policy, and makes it TSM. AcquaTop, section 5.2.3.
"""

from __future__ import annotations

from skyband.policies.tsm import TSM


class ASM(TSM):
    """Ranks as the list does, and means all of it."""
