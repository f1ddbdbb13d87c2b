"""A made-up market: trades of some tens of symbols, with bursts, heavy tails, stragglers and a few broken rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from skyband.order import FloatArray, IntArray

SECOND = 1_000_000
OPENING = int(datetime(2026, 3, 2, 9, 30, tzinfo=UTC).timestamp()) * SECOND
LOST = 240.0  # seconds by which a few trades come too late for any window of some minutes
VENUES = ("ARCA", "BATS", "IEXG", "XNAS", "XNYS")
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("symbol", pa.string()),
        ("venue", pa.string()),
        ("price", pa.float64()),
        ("previous", pa.float64()),
        ("open", pa.float64()),
        ("volume", pa.int64()),
    ]
)


class Market:
    """Trades, one interval of event time after the other; the same seed gives the same trades.

    There are `rate` trades a second of event time when there is no burst, and a few of the `symbols` make most of them.
    The market opens at `opening`, in microseconds since 1970.

    Examples
    --------
    >>> trades = Market(seed=1, rate=100).next(10.0)
    >>> trades.schema.names
    ['ts', 'symbol', 'venue', 'price', 'previous', 'open', 'volume']
    >>> 800 < trades.num_rows < 5000, trades.equals(Market(seed=1, rate=100).next(10.0))
    (True, True)
    """

    def __init__(self, seed: int, rate: float = 5_000.0, symbols: int = 48, opening: int = OPENING) -> None:
        self.opens = opening
        self.rng = np.random.default_rng(seed)
        self.names = _names(self.rng, symbols)
        activity = self.rng.pareto(1.2, symbols) + 0.2
        self.rates = rate * activity / activity.sum()
        self.volatility = self.rng.lognormal(-10.0, 0.4, symbols)
        self.opening = np.round(self.rng.lognormal(4.0, 0.8, symbols), 2)
        self.logs = np.log(self.opening)
        self.burst_ends = np.zeros(symbols)
        self.now = 0.0

    def next(self, seconds: float) -> pa.RecordBatch:
        """Return the trades of the next seconds, in order of arrival."""
        bursting = self._bursts(seconds)
        counts = self.rng.poisson(self.rates * seconds * np.where(bursting, 6.0, 1.0))
        symbol = np.repeat(np.arange(len(counts)), counts)
        when = self.now + self.rng.random(len(symbol)) * seconds
        order = np.lexsort((when, symbol))
        symbol, when = symbol[order], when[order]
        previous, price = self._prices(symbol, counts, bursting)
        arrival = np.argsort(when, kind="stable")
        self.now += seconds
        return self._batch(when[arrival], symbol[arrival], previous[arrival], price[arrival])

    def _bursts(self, seconds: float) -> npt.NDArray[np.bool_]:
        """Let a few symbols become lively for some seconds."""
        starting = self.rng.random(len(self.rates)) < 0.002 * seconds
        length = 5.0 + self.rng.exponential(20.0, len(self.rates))
        self.burst_ends = np.where(starting, self.now + length, self.burst_ends)
        return self.burst_ends > self.now

    def _prices(
        self, symbol: IntArray, counts: IntArray, bursting: npt.NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray]:
        """Walk each symbol's price on, trade by trade; return the prices before and at each trade."""
        width = (self.volatility * np.where(bursting, 3.0, 1.0))[symbol]
        walk = np.cumsum(width * self.rng.standard_t(3, len(symbol)))
        ends = np.cumsum(counts)
        base = np.concatenate([[0.0], walk])[ends - counts]
        logs = self.logs[symbol] + walk - base[symbol]
        before = np.concatenate([[0.0], logs[:-1]])
        first = (ends - counts)[counts > 0]
        before[first] = self.logs[counts > 0]
        self.logs[counts > 0] = logs[ends[counts > 0] - 1]
        return np.exp(before).round(2), np.exp(logs).round(2)

    def _batch(self, when: FloatArray, symbol: IntArray, previous: FloatArray, price: FloatArray) -> pa.RecordBatch:
        rng, size = self.rng, len(when)
        luck = rng.random(size)
        delay = np.where(luck < 0.01, rng.exponential(2.0, size), 0.0)
        delay += np.where((luck > 0.9999) & (when > LOST), LOST, 0.0)
        stamp = self.opens + ((when - delay) * SECOND).astype(np.int64)
        broken = rng.random(size) < 0.0001
        columns = [
            pa.array(stamp).cast(SCHEMA.field("ts").type),
            pa.array(self.names).take(pa.array(symbol)),
            pa.array(VENUES).take(pa.array((symbol + rng.integers(0, 3, size)) % len(VENUES))),
            pa.array(np.where(broken, np.nan, price)),
            pa.array(previous),
            pa.array(self.opening[symbol]),
            pa.array(np.ceil(rng.lognormal(4.0, 1.4, size)).astype(np.int64)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class TradeFiles:
    """Trades in a new folder ``trades``, one Parquet file a batch; each appears as a whole."""

    def __init__(self, folder: Path) -> None:
        self.trades, self._draft, self._count = folder / "trades", folder / "draft.parquet", 0
        self.trades.mkdir()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a file."""
        pq.write_table(pa.Table.from_batches([batch]), self._draft)
        self._draft.rename(self.trades / f"{self._count:09}.parquet")
        self._count += 1


def _names(rng: np.random.Generator, count: int) -> list[str]:
    """Make up different names of three or four letters."""
    letters = np.array(list("ABCDEFGHIKLMNOPRSTUVWXYZ"))
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choice(letters, int(rng.integers(3, 5))))] = None
    return list(found)
