"""The recorded mentions and followers that the papers on remote data use, as windows and as values over time.

Times in the files are milliseconds; here they are microseconds. Remote values are those of the last snapshot strictly
before a time; a replica starts with everybody's first snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from benchmarks import BenchmarkError
from skyband.order import FloatArray, IntArray
from skyband.remote.replica import Replica
from skyband.times import MILLISECOND, SECOND

START = 1_420_574_422_643_000
USUAL_FOLDER = Path("../shared/data")


@dataclass(frozen=True)
class Windowed:
    """One window: its end, the rows of the users that are mentioned in it, how often, and when last."""

    end: int
    users: IntArray
    mentions: IntArray
    last: IntArray


@dataclass(frozen=True)
class Remote:
    """Values of users over time: a row for each user, a column for each snapshot, and the times of these."""

    users: IntArray
    times: IntArray
    values: FloatArray

    def at(self, moments: Sequence[int]) -> FloatArray:
        """Return everybody's value at each moment: a row for each moment, a column for each user."""
        last = np.array([np.searchsorted(times, moments, "left") for times in self.times]) - 1
        return np.take_along_axis(self.values, np.maximum(last, 0), axis=1).T

    def rates(self) -> FloatArray:
        """Return how often each user's value changes, per second: known beforehand, as the papers have it."""
        apart = np.diff(self.times, axis=1).mean() / SECOND
        rates: FloatArray = (np.diff(self.values, axis=1) != 0).mean(axis=1) / apart
        return rates

    def replica(self, rates: bool = False) -> Replica:
        """Return a replica that knows the first snapshots; and how often values change, if somebody told it."""
        replica, names = Replica(), self.users.tolist()
        replica.put(names, self.values[:, 0], at=START)
        if rates:
            replica.set_rates(names, self.rates())
        return replica


@dataclass(frozen=True)
class Twitter:
    """The folder of the data; what is not asked for need not be there."""

    folder: Path

    def windows(
        self, users: IntArray, size: int, slide: int, count: int, *, every_mention: bool = False
    ) -> list[Windowed]:
        """Return the first windows, with the mentions of some users, who are in order.

        A user counts once per slide, as in the papers' runs, or with every mention.
        """
        table = pacsv.read_csv(self.folder / "mentions.csv.gz")
        table = table.filter(pc.is_in(table["user_id"], pa.array(users)))
        times, rows = (
            table["timestamp_ms"].to_numpy() * MILLISECOND,
            np.searchsorted(users, table["user_id"].to_numpy()),
        )
        made = []
        for start in range(START, START + count * slide, slide):
            inside = (times >= start) & (times < start + size)
            found, at = np.unique(rows[inside], return_inverse=True)
            slides = (times[inside] - START) // slide
            seen = np.column_stack([at, np.arange(len(at)) if every_mention else slides])
            mentions = np.bincount(np.unique(seen, axis=0)[:, 0], minlength=len(found))
            last = np.zeros(len(found), np.int64)
            np.maximum.at(last, at, times[inside])
            made.append(Windowed(start + size, found, mentions, last))
        return made

    @cached_property
    def _changes(self) -> pa.Table:
        return pq.read_table(self.folder / "ds_ch.parquet")

    def draws(self) -> dict[int, list[int]]:
        """Return which draws of which number of changes there are: every column ``ch<x>_<d>``."""
        found: dict[int, list[int]] = {}
        for name in self._changes.column_names:
            if name.startswith("ch"):
                changes, draw = name[2:].split("_")
                found.setdefault(int(changes), []).append(int(draw))
        return {changes: sorted(draws) for changes, draws in sorted(found.items())}

    def changes(self, changes: int, draw: int) -> Remote:
        """Return one draw of the data set with so many changes per invocation."""
        return _remote(self._changes, f"ch{changes}_{draw}")

    def followers(self) -> Remote:
        """Return the number of followers of everybody."""
        return _remote(pacsv.read_csv(self.folder / "followers.csv.gz"), "followers")


def _remote(table: pa.Table, column: str) -> Remote:
    """Return a column as values over time."""
    table = table.sort_by([("user_id", "ascending"), ("snapshot_ms", "ascending")])
    users, snapshots = np.unique(table["user_id"].to_numpy(), return_counts=True)
    if len(set(snapshots.tolist())) > 1:
        msg = f"users have from {snapshots.min()} to {snapshots.max()} snapshots of {column}; all need as many"
        raise BenchmarkError(msg)
    times, values = (table[name].to_numpy().reshape(len(users), -1) for name in ("snapshot_ms", column))
    return Remote(users, times * MILLISECOND, values.astype(np.float64))


def recorded_tweets(given: Path | None, remote: str) -> Twitter:
    """Return the recorded mentions, and the file of remote values that is named.

    Raises
    ------
    BenchmarkError
        Where they are not there.
    """
    folder = Path(given or os.environ.get("SKYBAND_DATA") or USUAL_FOLDER)
    for name in ("mentions.csv.gz", remote):
        if not (folder / "twitter" / name).exists():
            msg = (
                f"there is no twitter/{name} in {folder}; name the folder of the recorded data sets with --data, or in "
                "the environment variable SKYBAND_DATA"
            )
            raise BenchmarkError(msg)
    return Twitter(folder / "twitter")
