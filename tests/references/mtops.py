"""MTopS: MinTopK, MTopBand and MTopList, one object at a time.

Shastri, *MTopS: Multi-Query Optimization for Continuous Top-K Query Workloads*. MinTopK is reference [16] there; it is
told in section 3.1 of Zahmatkesh and Della Valle, *Continuous Top-k Approximated Join of Streaming and Evolving
Distributed Data* (AcquaTop).

A window of a query is [start, start + win). Objects come in order of time, one unit of time after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.references.objects import Object, better, ranked


@dataclass(frozen=True)
class Query:
    """Q_i of the workload: its name, win, slide and k, and where one of its windows starts."""

    name: str
    win: int
    slide: int
    k: int
    offset: int = 0

    def starts(self, at: int) -> bool:
        """Tell whether a window of the query starts at a moment."""
        return (at - self.offset) % self.slide == 0


Output = Callable[[Query, int, list[Object]], None]
"""Takes the answers: the query, the end of its window, and the top-k result."""


class MetaQuery:
    """Q_meta, sections 4.2 to 4.6: its window is the longest one, its slide and its k adapt."""

    def __init__(self, WL: Sequence[Query]) -> None:
        self.WL = WL
        self.WIN = max(Q.win for Q in WL)

    def serves(self, start: int, now: int) -> list[Query]:
        """Return the queries that a predicted view serves: those with a window from there on that is to be answered."""
        return [Q for Q in self.WL if Q.starts(start) and start + Q.win > now]

    def K(self, start: int, now: int) -> int:
        """Return the adaptive k of section 4.6; 0 where the view serves nobody.

        The thesis has one output moment per view. Here a view may serve windows that end at different moments; it needs
        the largest k of those that are still to be answered.
        """
        return max((Q.k for Q in self.serves(start, now)), default=0)

    def ending(self, now: int) -> list[Query]:
        """Return the queries that need output at a moment (the instructions of RMQS, chapter 7)."""
        return [Q for Q in self.WL if Q.starts(now - Q.win)]


class Executor:
    """The main loop that MTopBand and MTopList share: Figure 6.3, MTopList(S, RMQS_ins)."""

    def __init__(self, WL: Sequence[Query], output: Output) -> None:
        self.meta, self.output = MetaQuery(WL), output
        self.now: int | None = None

    def run(self, S: Iterable[Object]) -> None:
        """Take in a stream."""
        for O_new in S:  # line 1
            self.advance(O_new.time)
            self.update(O_new)  # line 6

    def advance(self, to: int) -> None:
        """Let time pass; at every moment at which a window slides, answer, purge and add."""
        if self.now is None:
            for start in range(to - self.meta.WIN + 1, to + 1):
                self.add_new_window(start, to)
            self.now = to
        while self.now < to:
            self.now += 1
            for Q in self.meta.ending(self.now):  # line 2
                if (start := self.now - Q.win) in self.views():
                    self.output(Q, self.now, self.output_topk(start, Q.k))  # line 3, and QRE of chapter 7
            for start in self.views():
                self.purge_expired_window(start, self.meta.K(start, self.now))  # line 4
            self.add_new_window(self.now, self.now)  # line 5

    def views(self) -> list[int]:
        """Return where the views start, W_oldest first."""
        raise NotImplementedError

    def output_topk(self, start: int, k: int) -> list[Object]:
        """Return the best k of a view."""
        raise NotImplementedError

    def purge_expired_window(self, start: int, k: int) -> None:
        """Let a view hold only k objects from now on; none, and it is gone."""
        raise NotImplementedError

    def add_new_window(self, start: int, now: int) -> None:
        """Create an empty view, if any query is served by it."""
        raise NotImplementedError

    def update(self, O_new: Object) -> None:
        """Take in an object."""
        raise NotImplementedError


class MTopBand(Executor):
    """Chapter 5: a sorted top-k result set for each view."""

    def __init__(self, WL: Sequence[Query], output: Output) -> None:
        super().__init__(WL, output)
        self.band: dict[int, list[Object]] = {}
        self.K: dict[int, int] = {}

    def views(self) -> list[int]:
        """Return where the views start."""
        return list(self.band)

    def output_topk(self, start: int, k: int) -> list[Object]:
        """Return the best k of a view."""
        return self.band[start][:k]

    def purge_expired_window(self, start: int, k: int) -> None:
        """Section 5.2, step 1: remove the result set of the expired window."""
        self.K[start], self.band[start] = k, self.band[start][:k]
        if k == 0:
            del self.band[start], self.K[start]

    def add_new_window(self, start: int, now: int) -> None:
        """Section 5.2, step 2: create an empty result set for the newest predicted view."""
        if k := self.meta.K(start, now):
            self.band[start], self.K[start] = [], k

    def update(self, O_new: Object) -> None:
        """Section 5.2: compare with O_min of every view; insert, and delete O_min where the view was full."""
        for start, result in self.band.items():
            if len(result) < self.K[start] or better(O_new, result[-1]):
                self.band[start] = ranked([*result, O_new])[: self.K[start]]

    def kept(self) -> set[Object]:
        """Return the objects that any view holds."""
        return {o for result in self.band.values() for o in result}


@dataclass(eq=False)
class Entry:
    """O_i of the MTopList, with its window marks: where the first and the last view start that hold it."""

    o: Object
    start_mark: int
    end_mark: int


@dataclass
class View:
    """W_i of the MTopList: k_i, O_curr, and min_FP, the entry with the lowest score that it holds."""

    k: int
    O_curr: int = 0
    min_FP: Entry | None = None


class MTopList(Executor):
    """Chapter 6: one list of distinct objects for all views."""

    def __init__(self, WL: Sequence[Query], output: Output) -> None:
        super().__init__(WL, output)
        self.list: list[Entry] = []
        self.W: dict[int, View] = {}

    def views(self) -> list[int]:
        """Return where the views start."""
        return list(self.W)

    def holds(self, start: int, entry: Entry) -> bool:
        """Tell whether a view holds an entry: Lemma 6.1.3, the marks and min_FP together tell.

        Up to its ending mark an object is alive; of those, a view holds all that are not below its min_FP.
        """
        low = self.W[start].min_FP
        return low is not None and entry.start_mark <= start <= entry.end_mark and not better(low.o, entry.o)

    def output_topk(self, start: int, k: int) -> list[Object]:
        """OutputTopK, line 1: the first k_i objects of the view; for a view that is not the oldest, by Lemma 6.1.3."""
        return [entry.o for entry in self.list if self.holds(start, entry)][:k]

    def purge_expired_window(self, start: int, k: int) -> None:
        """PurgeExpiredWindow."""
        self.W[start].k = k
        while self.W[start].O_curr > k:  # line 1
            self._drop_lowest(start)  # lines 2-4
        if k == 0:
            del self.W[start]  # line 5

    def _drop_lowest(self, start: int) -> None:
        """Take the object at min_FP out of a view, and let min_FP point to the next one above."""
        view = self.W[start]
        assert view.min_FP is not None
        lowest, held = view.min_FP, [entry for entry in self.list if self.holds(start, entry)]
        view.O_curr -= 1
        view.min_FP = held[-2] if len(held) > 1 else None
        self._update_marks(lowest)

    def _update_marks(self, entry: Entry) -> None:
        """Move marks to the first and the last view that still hold an object; remove it where there is none.

        The thesis adds 1 to the starting mark. By its Observation 2 the next view need not hold the object: the mark
        goes on to the first one that does. Likewise the ending mark, of which the thesis does not speak.
        """
        held = [start for start in self.W if self.holds(start, entry)]
        if held:
            entry.start_mark, entry.end_mark = held[0], held[-1]  # PurgeExpiredWindow, line 2
        else:
            self.list.remove(entry)  # PurgeExpiredWindow, lines 3-4

    def add_new_window(self, start: int, now: int) -> None:
        """AddNewWindow."""
        if k := self.meta.K(start, now):
            self.W[start] = View(k)  # lines 2-3

    def update(self, O_new: Object) -> None:
        """UpdateMTopList of Figure 6.4."""
        entered = [start for start, view in self.W.items() if self._lets_in(view, O_new)]
        if not entered:  # line 01-02
            return  # line 03
        entry = Entry(O_new, entered[0], entered[-1])  # lines 06 and 10
        place = sum(better(other.o, O_new) for other in self.list)
        self.list.insert(place, entry)  # line 05, for the best of all; line 09
        for start in entered:  # lines 07 and 11
            view = self.W[start]
            if view.min_FP is None or better(view.min_FP.o, O_new):
                view.min_FP = entry
            view.O_curr += 1
        for start in entered:
            if self.W[start].O_curr > self.W[start].k:
                self._drop_lowest(start)

    def _lets_in(self, view: View, O_new: Object) -> bool:
        return view.O_curr < view.k or (view.min_FP is not None and better(O_new, view.min_FP.o))

    def marks(self) -> list[tuple[Object, int, int]]:
        """Return the list with its marks."""
        return [(entry.o, entry.start_mark, entry.end_mark) for entry in self.list]

    def pointers(self) -> dict[int, Object]:
        """Return min_FP of each view that holds something."""
        return {start: view.min_FP.o for start, view in self.W.items() if view.min_FP is not None}

    def kept(self) -> set[Object]:
        """Return the objects of the list."""
        return {entry.o for entry in self.list}


@dataclass(eq=False)
class Marked:
    """An object of the super-top-k list, with its starting and ending window marks."""

    o: Object
    w_start: int
    w_end: int


@dataclass
class MinTopK:
    """The super-top-k list of one query; windows are numbered.

    With one k the lowest score of a window falls from window to window (Lemma 6.1.1), so an object is in all windows
    from its starting to its ending mark, and marks need no more than adding 1.
    """

    Q: Query
    output: Output
    super_top_k: list[Marked] = field(default_factory=list)
    tk: dict[int, int] = field(default_factory=dict)  # of the active windows: how many objects they have
    lbp: dict[int, Marked] = field(default_factory=dict)  # of those that have k
    now: int | None = None

    def start(self, w: int) -> int:
        """Return where a window starts."""
        return self.Q.offset + w * self.Q.slide

    def run(self, S: Iterable[Object]) -> None:
        """Take in a stream."""
        for o in S:
            self.advance(o.time)
            self.insert(o)

    def advance(self, to: int) -> None:
        """Let time pass; answer and purge the windows that end, and activate those that start."""
        newest = (to - self.Q.offset) // self.Q.slide
        if self.now is None:
            self.tk = {w: 0 for w in range(newest - self.Q.win, newest + 1) if self.start(w) + self.Q.win > to}
        self.now = to
        while self.tk and self.start(oldest := min(self.tk)) + self.Q.win <= to:
            self.tk.setdefault(oldest + 1, 0)
            in_window = [each for each in self.super_top_k if each.w_start <= oldest]
            self.output(self.Q, self.start(oldest) + self.Q.win, [each.o for each in in_window])
            self.purge_expired_window(oldest)
        for w in range(max(self.tk) + 1, newest + 1):
            self.tk[w] = 0

    def purge_expired_window(self, w_exp: int) -> None:
        """Handle expiration: the first k objects leave the expired window."""
        for each in list(self.super_top_k):
            if each.w_start == w_exp:
                each.w_start += 1
                if each.w_start > each.w_end:
                    self.super_top_k.remove(each)
        del self.tk[w_exp]
        self.lbp.pop(w_exp, None)

    def insert(self, o: Object) -> None:
        """Handle a new object: it participates in all active windows that have room, or a worse object."""
        active = [w for w in self.tk if self.start(w) <= o.time]
        entered = [w for w in active if w not in self.lbp or better(o, self.lbp[w].o)]
        if not entered:
            return
        new = Marked(o, min(entered), max(entered))
        self.super_top_k.insert(sum(better(each.o, o) for each in self.super_top_k), new)
        for w in entered:
            if w not in self.lbp:
                self.tk[w] += 1
            else:
                last = self.lbp.pop(w)
                last.w_start += 1
                if last.w_start > last.w_end:
                    self.super_top_k.remove(last)
            if self.tk[w] == self.Q.k:
                self.lbp[w] = [each for each in self.super_top_k if each.w_start <= w <= each.w_end][-1]

    def marks(self) -> list[tuple[Object, int, int]]:
        """Return the list with its marks, as where the windows start."""
        return [(each.o, self.start(each.w_start), self.start(each.w_end)) for each in self.super_top_k]

    def kept(self) -> set[Object]:
        """Return the objects of the list."""
        return {each.o for each in self.super_top_k}
