"""Placement: where the state of a stream is, why there, and when it should be elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from skyband.errors import InputError
from skyband.spark.checkpoint import Checkpoint

PLACEMENTS = ("auto", "driver", "executors")
MOST_ON_DRIVER = 100_000_000
"""So many bytes of state at most are for the driver: it writes them with each batch, and has gigabytes in memory."""


@dataclass(frozen=True)
class Placement:
    """Where the state of a stream is, and why."""

    where: str
    why: str

    @classmethod
    def of(cls, asked: str, checkpoint: Checkpoint) -> Placement:
        """Place a stream as it was asked; without a wish where its checkpoint has the state, else on the driver.

        Of a new stream nothing has been seen. On the driver queries can come and go, so it begins there.
        """
        if asked not in PLACEMENTS:
            msg = f"placement is {asked!r}; use {', '.join(map(repr, PLACEMENTS[:-1]))} or {PLACEMENTS[-1]!r}"
            raise InputError(msg)
        if asked != "auto":
            return cls(asked, "as start was asked")
        if checkpoint.placement in PLACEMENTS:
            return cls(checkpoint.placement, "as its checkpoint began")
        return cls("driver", "as streams begin where nothing else was asked")

    def said(self, kept: int | None, size: int | None) -> str:
        """Say where the state is and why, and how much; on the driver also whether that is too much.

        Examples
        --------
        >>> driver = Placement("driver", "as start was asked")
        >>> driver.said(1_204, 5_100_000)
        'driver, as start was asked; 1,204 rows are kept (5.1 MB)'
        >>> Placement("executors", "as its checkpoint began").said(None, None)
        "executors, as its checkpoint began; in Spark's state store"
        """
        store = "in Spark's state store" if self.where == "executors" else ""
        held = "" if kept is None or size is None else f"{kept:,} rows are kept ({size / 1e6:,.1f} MB)"
        return "; ".join([f"{self.where}, {self.why}", *filter(None, [" ".join(filter(None, [held, store]))])])

    def advice(self, size: int | None) -> str:
        """Return what is advised where so many bytes are kept; nothing where all is well.

        Examples
        --------
        >>> Placement("driver", "as start was asked").advice(90_000_000)
        ''
        """
        if self.where != "driver" or size is None or size <= MOST_ON_DRIVER:
            return ""
        return (
            f"more than {MOST_ON_DRIVER / 1e6:,.0f} MB outgrow the driver: where all queries have partition_by or "
            "aggregates, start the stream with placement='executors' and a new checkpoint"
        )
