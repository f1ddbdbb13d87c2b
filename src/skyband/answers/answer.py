"""The reply: answers as columns inside, as rows only where someone asks for rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.answers.row_kernels import over_rows, ranks
from skyband.answers.table import as_table
from skyband.compiled import gather
from skyband.order import NEVER, BoolArray, FloatArray, IntArray, SlotArray, Ties, ranks_in_runs
from skyband.times import Moment, moment_of

Kind = Literal["entered", "left", "moved", "updated"]
Column = TypeVar("Column")
_NO_ANSWERS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Row:
    """One ranked event of an answer; selected columns are attributes as well. Rows of a set have no rank.

    The id of a group without one is None.

    A row of a joined query also has the remote value, by the name of its service, and the `age` of that value: how many
    microseconds before the answer it was learnt, None where it is a default. In answers with ties, whose ranks repeat,
    `unique_rank` numbers the rows.

    Examples
    --------
    >>> row = Row(1, "SPY", 9.5, 1_000, None, {"price": 140.0})
    >>> row.rank, row.id, row.price
    (1, 'SPY', 140.0)
    """

    rank: int | None
    id: int | str | None
    score: float
    time: Moment
    partition: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    age: int | None = field(default=None, compare=False)
    unique_rank: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, given: Mapping[str, Any], values: Mapping[str, Any] | None = None, age: int | None = None) -> Row:
        """Return a row of a table of answers, as a dict has it."""
        columns = (given["rank"], given["id"], given["score"], given["time"], given.get("partition"))
        return cls(*columns, values or {}, age, given.get("unique_rank"))

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "values")
        if name in values:
            return values[name]
        msg = f"the answer has no column {name!r}; it has rank, id, score, time, partition" + "".join(
            f", {v}" for v in values
        )
        raise AttributeError(msg)


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one row since the answer before: it entered, left, moved, or was updated in its place."""

    kind: Kind
    row: Row
    previous_rank: int | None = None

    @property
    def rank(self) -> int | None:
        """The rank now; None for a row that left, or of a set."""
        return None if self.kind == "left" else self.row.rank


@dataclass(frozen=True)
class Events:
    """Events that answers show, column by column, each once; those of joined queries with their remote values."""

    id: IntArray | pa.Array
    score: FloatArray
    time: IntArray
    part: IntArray | None
    partition: pa.Array | None
    payload: pa.Table | None
    remote: FloatArray | None = None
    age: IntArray | None = None  # -1 where there is none


@dataclass(frozen=True)
class RefreshCost:
    """What each answer of a joined query took: ids refreshed and failed, rows stale, objects nothing is known of."""

    service: str
    refreshes: IntArray
    failures: IntArray
    stale: IntArray
    unknown: IntArray

    def take(self, chosen: IntArray) -> RefreshCost:
        """Return only some of the answers."""
        columns = (self.refreshes, self.failures, self.stale, self.unknown)
        return RefreshCost(self.service, *(column[chosen] for column in columns))


@dataclass(frozen=True)
class AnswerBlock:
    """Answers of one group of queries, column by column.

    Per answer: which query, start (NEVER: none) and end of its window, whether it is exact, and why not. The rows of
    answer i are ``offsets[i]`` to ``offsets[i + 1]``; each is an event, by its place in `events` (`place` None: in
    order). An event is in many answers, so this is how answers stay small; the plain columns `id`, `score`, `time`
    and so on are made when first asked for. Rows of sets are not `ranked`: they come in order of their ids. With `ties`
    equal scores share a rank.
    """

    names: Sequence[str]
    query: IntArray
    start: IntArray
    end: IntArray
    exact: BoolArray
    offsets: IntArray
    events: Events
    place: SlotArray | None
    selects: Sequence[tuple[str, ...]]
    counts: bool
    provisional: bool = False
    changes: Sequence[Sequence[Change]] | None = None
    why: str | npt.NDArray[np.str_] | None = None
    spent: RefreshCost | None = None
    ranked: bool = True
    ties: Ties | None = None

    @cached_property
    def reasons(self) -> npt.NDArray[np.str_]:
        """Why each answer that is not exact is not."""
        return np.broadcast_to("" if self.why is None else self.why, len(self.query))

    @cached_property
    def rank(self) -> SlotArray | None:
        """The rank of each row, from 1; None for sets."""
        if not self.ranked or self.ties is None:
            return self._numbers if self.ranked else None
        runs = (over_rows(np.arange(len(self.query)), self.offsets), *(() if self.part is None else (self.part,)))
        return (ranks_in_runs(self.ties, self.score, *runs) + 1).astype(np.int32)

    @property
    def unique_rank(self) -> SlotArray | None:
        """The number of each row in its answer, or its partition there, from 1; None where ranks do not repeat."""
        return None if self.ties is None else self._numbers

    @cached_property
    def _numbers(self) -> SlotArray:
        return ranks(self.part, self.offsets)

    @cached_property
    def id(self) -> IntArray | pa.Array:
        """The id of each row."""
        return self._column(self.events.id)

    @cached_property
    def score(self) -> FloatArray:
        """The score of each row."""
        return self._column(self.events.score)

    @cached_property
    def time(self) -> IntArray:
        """The event time of each row."""
        return self._column(self.events.time)

    @cached_property
    def part(self) -> IntArray | None:
        """A number for the partition of each row, if there are any."""
        return self._column(self.events.part)

    @cached_property
    def partition(self) -> pa.Array | None:
        """The partition value of each row, if there are any."""
        return self._column(self.events.partition)

    @cached_property
    def payload(self) -> pa.Table | None:
        """The carried columns of each row, if there are any."""
        return self._column(self.events.payload)

    @cached_property
    def remote(self) -> FloatArray | None:
        """The remote value of each row, of a joined query."""
        return self._column(self.events.remote)

    @cached_property
    def age(self) -> IntArray | None:
        """How old that is, in microseconds; -1 where it is a default."""
        return self._column(self.events.age)

    def take(self, chosen: IntArray) -> AnswerBlock:
        """Return only some of the answers, as whole answers where changes were asked for."""
        sizes = np.diff(self.offsets)[chosen]
        ends = np.cumsum(sizes)
        rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(self.offsets[chosen] - ends + sizes, sizes)
        return replace(
            self, query=self.query[chosen], start=self.start[chosen], end=self.end[chosen], exact=self.exact[chosen],
            offsets=np.concatenate([[0], ends]), changes=None,
            why=self.why if self.why is None else self.reasons[chosen],
            spent=None if self.spent is None else self.spent.take(chosen),
            place=(rows if self.place is None else self.place[rows]).astype(np.int32),
        )  # fmt: skip

    def _column(self, values: Column) -> Column:
        """Return what each row has of a column of its events."""
        column: Any = values
        if column is None or self.place is None:
            return values
        if isinstance(column, pa.Array) and pa.types.is_integer(column.type) and column.null_count == 0:
            return cast(Column, pa.array(gather(column.to_numpy(), self.place)))
        found = gather(column, self.place) if isinstance(column, np.ndarray) else column.take(pa.array(self.place))
        return cast(Column, found)


@dataclass(frozen=True, repr=False)
class Answer:
    """The `k` best events of one window of one query, or the set that it asks for.

    `exact` says whether the answer is; if not, `why` says why not. `provisional` marks a window that is still
    open. `watermark` and `batch` say from which prefix of the input the answer is. Rows are made when first
    asked for. What a joined query took for it (`refreshes`, `failures`, `stale`, `unknown`) is None for others.
    """

    block: AnswerBlock = field(repr=False)
    index: int = field(repr=False)
    plain: bool = field(repr=False)
    watermark: Moment | None
    batch: int

    @property
    def query(self) -> str:
        """The query's name."""
        return self.block.names[int(self.block.query[self.index])]

    @property
    def start(self) -> Moment | None:
        """Where the window starts; None where it is of all time."""
        start = int(self.block.start[self.index])
        return None if start == NEVER else self._moment(start, self.block.counts)

    @property
    def end(self) -> Moment:
        """Where the window ends."""
        return self._moment(int(self.block.end[self.index]), self.block.counts)

    @property
    def exact(self) -> bool:
        """Whether these are surely the best of the window."""
        return bool(self.block.exact[self.index])

    @property
    def why(self) -> str | None:
        """Why the answer is not exact; None where it is."""
        return None if self.exact else str(self.block.reasons[self.index])

    @property
    def provisional(self) -> bool:
        """Whether the window is still open."""
        return self.block.provisional

    @property
    def refreshes(self) -> int | None:
        """How many remote ids were refreshed for this answer, changed or not."""
        return None if self.block.spent is None else int(self.block.spent.refreshes[self.index])

    @property
    def failures(self) -> int | None:
        """How many remote ids were asked for in vain."""
        return None if self.block.spent is None else int(self.block.spent.failures[self.index])

    @property
    def stale(self) -> int | None:
        """How many rows have a remote value that is older than this answer."""
        return None if self.block.spent is None else int(self.block.spent.stale[self.index])

    @property
    def unknown(self) -> int | None:
        """How many objects of the window there are of whose remote value nothing is known yet."""
        return None if self.block.spent is None else int(self.block.spent.unknown[self.index])

    @property
    def changes(self) -> Sequence[Change]:
        """What entered, left, moved or was updated since the answer before (for ``emit="changes"``)."""
        return () if self.block.changes is None else self.block.changes[self.index]

    @cached_property
    def rows(self) -> list[Row]:
        """The ranked rows, best first (partition by partition); those of a set in order of their ids."""
        block = self.block
        low, high = int(block.offsets[self.index]), int(block.offsets[self.index + 1])
        ids = block.id[low:high]
        ids = ids.to_pylist() if isinstance(ids, pa.Array) else ids.tolist()
        times = [self._moment(t, False) for t in block.time[low:high].tolist()]
        partition = [None] * len(ids) if block.partition is None else block.partition[low:high].to_pylist()
        names = block.selects[int(block.query[self.index])]
        values: list[dict[str, Any]] = [{}] * len(ids)
        if names and block.payload is not None:
            values = block.payload.select(list(names)).slice(low, high - low).to_pylist()
        ages: list[int | None] = [None] * len(ids)
        if block.spent is not None and block.remote is not None and block.age is not None:
            pairs = zip(block.remote[low:high].tolist(), values, strict=True)
            values = [{block.spent.service: value, **carried} for value, carried in pairs]
            ages = [None if age < 0 else age for age in block.age[low:high].tolist()]
        ranks, places = (
            [None] * len(ids) if column is None else column[low:high].tolist()
            for column in (block.rank, block.unique_rank)
        )
        columns = (ranks, ids, block.score[low:high].tolist(), times, partition, values, ages, places)
        return [Row(*row) for row in zip(*columns, strict=True)]

    def _moment(self, value: int, counts: bool) -> Moment:
        return value if counts or self.plain else moment_of(value)

    def __len__(self) -> int:
        return int(self.block.offsets[self.index + 1] - self.block.offsets[self.index])

    def __repr__(self) -> str:
        flags = ", provisional" if self.provisional else "" if self.exact else f", {self.why}"
        begin = "" if self.start is None else f"{self.start} "
        return f"<answer of {self.query!r}, {begin}to {self.end}, {len(self)} rows{flags}>"


class Answers(Sequence[Answer]):
    """Answers in order of their window ends; a list of `Answer`, or one Arrow table.

    Parameters
    ----------
    blocks
        The columns.
    order
        For each answer its block and its place there; None: the one block as it is.
    """

    def __init__(
        self,
        blocks: Sequence[AnswerBlock] = (),
        order: tuple[IntArray, IntArray] | None = None,
        plain: bool = False,
        watermark: int | None = None,
        batch: int = 0,
    ) -> None:
        self.blocks = blocks
        if order is None and not blocks:
            order = _NO_ANSWERS, _NO_ANSWERS
        elif order is None:
            sizes = [len(block.end) for block in blocks]
            order = (
                np.repeat(np.arange(len(blocks)), sizes),
                np.concatenate([*(np.arange(n) for n in sizes), np.empty(0, np.int64)]).astype(np.int64),
            )
        self.order = order
        self.plain = plain
        self.watermark = watermark
        self.batch = batch

    def __len__(self) -> int:
        return len(self.order[0])

    @overload
    def __getitem__(self, index: int) -> Answer: ...
    @overload
    def __getitem__(self, index: slice) -> list[Answer]: ...
    def __getitem__(self, index: int | slice) -> Answer | list[Answer]:
        """Return one answer, or several."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        block, place = int(self.order[0][index]), int(self.order[1][index])
        mark: Moment | None = self.watermark
        if self.watermark is not None and not self.plain:
            mark = moment_of(self.watermark)
        return Answer(self.blocks[block], place, self.plain, mark, self.batch)

    def __iter__(self) -> Iterator[Answer]:
        for i in range(len(self)):
            yield self[i]

    def __repr__(self) -> str:
        return f"<{len(self)} answers, {self.rows} rows>"

    def latest(self) -> Answers:
        """Return of each query only its last answer, and that as a whole where changes were asked for.

        Examples
        --------
        >>> import skyband as sb
        >>> monitor = sb.Monitor([sb.Query("top", k=1, score="x", window=sb.Window(10))], time="t", id="t")
        >>> _ = monitor.push([{"t": 1, "x": 5.0}, {"t": 12, "x": 7.0}])
        >>> answers = monitor.advance(20)
        >>> [answer.end for answer in answers], [answer.end for answer in answers.latest()]
        ([10, 20], [20])
        """
        number, place = (column.tolist() for column in self.order)
        owners = [self.blocks[b].names[int(self.blocks[b].query[p])] for b, p in zip(number, place, strict=True)]
        last = dict(zip(owners, zip(number, place, strict=True), strict=True))  # a query may be in several blocks
        chosen = [np.array([p for n, p in last.values() if n == b], np.int64) for b in range(len(self.blocks))]
        blocks = [block.take(part) for block, part in zip(self.blocks, chosen, strict=True)]
        return Answers(blocks, None, self.plain, self.watermark, self.batch)

    @property
    def rows(self) -> int:
        """How many rows all answers have together."""
        return sum(int(block.offsets[-1]) for block in self.blocks)

    def table(self, *, quality: bool = False) -> pa.Table:
        """Return all rows as one table, in order.

        Parameters
        ----------
        quality
            Add the columns `exact`, `why` and `provisional`.

        Returns
        -------
        Columns `query, window_start, window_end, rank, id, score, time`, then `unique_rank`, `partition`, `change` and
        `previous_rank` where a query has them, then the selected columns; of joined queries the remote value, by the
        name of its service, its `age`, `refreshes`, `failures` and `stale`. Windows without rows do not show. Rows of
        sets have NULL for a rank; a row is known by query, window and id then. Where ranks repeat, as ties do,
        `unique_rank` numbers the rows of an answer, or of a partition of it; of a row that left, that before.
        """
        return as_table(self, quality)

    def to_pandas(self) -> Any:
        """Return all rows as a pandas DataFrame; see `table`."""
        return self.table().to_pandas()
