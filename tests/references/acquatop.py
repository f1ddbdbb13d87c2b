"""Topk+N and AcquaTop: the Super-MTK+N list, a local replica, and refresh policies under a budget.

Zahmatkesh and Della Valle, *Continuous Top-k Approximated Join of Streaming and Evolving Distributed Data* (AcquaTop):
algorithms 1 to 4 of section 4, algorithm 5 and the policies of section 5, and ACQUA's rankers as told in section 3.2.

Decided here as in the package, where the paper leaves it open or its listing does not do what its text says:

- A window w is [w * slide, w * slide + size) (the paper's are open on the left), so it is evaluated before an object
  that arrives at its end. Algorithm 1 does not add the object with which a window ends; here it is added after that.
- Algorithm 2, line 12, stops after k objects, though a window has k + n; here all of them move on.
- Algorithm 2, line 18, resets min.score_S with every window. An object may be older than the window before; so that the
  minimum is a lower bound, it is kept by ending window mark, and dropped with the window.
- Algorithm 3, line 7: where an object falls, others that only later windows held take its place.
- The changes of one evaluation come together: all objects of the list are replaced before the pointers are refreshed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tests.references.objects import Object, better

F = Callable[[float, float], float]
"""The scoring function of x_S and x_D."""


@dataclass(frozen=True)
class Joined:
    """O_i: its id, when it arrived, and both sides of its score; a changed object may have none of the stream's."""

    id: int
    t: int
    score_S: float | None
    score_D: float


@dataclass(eq=False)
class Listed:
    """An object of the Super-MTK+N list, with its window marks."""

    o: Object
    score_S: float
    w_start: int
    w_end: int


class TopkN:
    """The Super-MTK+N list, and algorithms 1 to 4."""

    def __init__(self, k: int, n: int, size: int, slide: int, F: F) -> None:
        self.k, self.MTKN_size = k, k + n
        self.size, self.slide, self.F = size, slide, F
        self.w = 0  # the current window, the oldest of W_act
        self.super_MTKN: list[Listed] = []
        self.tk: dict[int, int] = {}
        self.lbp: dict[int, Listed] = {}
        self.min_score_S: dict[int, float] = {}
        self.seen: dict[int, int] = {}  # section 4.2: pointers to the objects of the window, with their times

    def end(self, w: int) -> int:
        """Return the evaluation time of a window."""
        return w * self.slide + self.size

    def w_last(self, t: int) -> int:
        """CalculateEndWindow: the last window that an object of that time is in."""
        return t // self.slide

    # Algorithm 1.

    def run(self, S: Iterable[Joined], received: Callable[[int], dict[int, float]], until: int) -> list[list[int]]:
        """Return the answers of the windows before `until`; `received` gives the changes that a window gets."""
        answers = []
        for O_i in S:  # line 3
            while O_i.t >= self.end(self.w):  # lines 5 and 8
                answers.append(self.evaluate(received(self.w)))
            self.UpdateMTKN(O_i)  # line 6
        while self.w < until:
            answers.append(self.evaluate(received(self.w)))
        return answers

    def evaluate(self, changed_objects: dict[int, float]) -> list[int]:
        """Lines 9-13."""
        self.UpdateChangedObjects(changed_objects)  # lines 9-10
        answer = [each.o.id for each in self.MTKN(self.w)[: self.k]]  # line 11
        self.PurgeExpiredWindow()  # line 12
        return answer

    def MTKN(self, w: int) -> list[Listed]:
        """Return the MTK+N list of a window: its K-list, then its N-list."""
        return [each for each in self.super_MTKN if each.w_start <= w <= each.w_end]

    # Algorithm 2.

    def PurgeExpiredWindow(self) -> None:
        w_exp = self.w
        for O_i in list(self.super_MTKN):  # line 3
            if O_i.w_start == w_exp:  # line 4
                O_i.w_start += 1  # line 5
            if O_i.w_end < O_i.w_start:  # line 8
                self.super_MTKN.remove(O_i)  # line 9
        self.w += 1  # line 16
        self.tk.pop(w_exp, None)
        self.lbp.pop(w_exp, None)  # line 17
        self.min_score_S.pop(w_exp, None)  # line 18
        self.seen = {name: t for name, t in self.seen.items() if self.w_last(t) > w_exp}

    # Algorithm 3.

    def UpdateMTKN(self, O_i: Joined) -> None:
        w_end = self.w_last(O_i.t)
        if O_i.score_S is not None:
            self.seen[O_i.id] = O_i.t
            self.min_score_S[w_end] = min(self.min_score_S.get(w_end, O_i.score_S), O_i.score_S)  # lines 2-4
        old = [each for each in self.super_MTKN if each.o.id == O_i.id]
        if old:  # line 5
            score_S = old[0].score_S if O_i.score_S is None else O_i.score_S
            self.super_MTKN.remove(old[0])
            self._place(Listed(Object(self.F(score_S, O_i.score_D), O_i.t, O_i.id), score_S, self.w, w_end))  # line 6
            self.RefreshLBP()  # line 7
            return
        score_S = self.min_score_S[w_end] if O_i.score_S is None else O_i.score_S  # lines 10-15
        self.InsertInToMTKN(Object(self.F(score_S, O_i.score_D), O_i.t, O_i.id), score_S, w_end)  # line 16

    def InsertInToMTKN(self, o: Object, score_S: float, w_end: int) -> None:
        room = [w for w in range(self.w, w_end + 1) if w not in self.lbp or better(o, self.lbp[w].o)]
        if not room:  # line 19
            return  # line 20
        new = Listed(o, score_S, room[0], w_end)  # lines 23-24
        self._place(new)  # line 25
        self.UpdateLBP(new)  # line 26

    def _place(self, new: Listed) -> None:
        self.super_MTKN.insert(sum(better(each.o, new.o) for each in self.super_MTKN), new)

    def UpdateChangedObjects(self, values: dict[int, float]) -> None:
        in_list = [each for each in self.super_MTKN if each.o.id in values]
        for each in in_list:  # lines 30-31, of objects of the list
            self.super_MTKN.remove(each)
        for each in in_list:
            self._place(replace(each, o=Object(self.F(each.score_S, values[each.o.id]), each.o.time, each.o.id)))
        if in_list:
            self.RefreshLBP()
        known = {each.o.id for each in (*in_list, *self.super_MTKN)}
        for name, score_D in values.items():  # lines 30-31, of objects outside it
            if name in self.seen and name not in known:
                self.UpdateMTKN(Joined(name, self.seen[name], None, score_D))

    def RefreshLBP(self) -> None:
        """Give each active window its k + n best of the list; set marks and pointers by that."""
        listed = self.super_MTKN
        last = max([self.w, *(each.w_end for each in listed)])
        in_window = {
            w: [each for each in listed if each.w_end >= w][: self.MTKN_size] for w in range(self.w, last + 1)
        }  # fmt: skip
        self.tk = {w: len(each) for w, each in in_window.items()}
        self.lbp = {w: each[-1] for w, each in in_window.items() if len(each) == self.MTKN_size}
        self.super_MTKN = [each for each in listed if any(each in held for held in in_window.values())]
        for each in self.super_MTKN:
            each.w_start = min(w for w, held in in_window.items() if each in held)

    # Algorithm 4.

    def UpdateLBP(self, O_i: Listed) -> None:
        for w_i in range(O_i.w_start, O_i.w_end + 1):  # line 2
            if w_i not in self.lbp:  # line 3
                self.tk[w_i] = self.tk.get(w_i, 0) + 1  # line 4
                if self.tk[w_i] == self.MTKN_size:  # line 5
                    self.lbp[w_i] = self.MTKN(w_i)[-1]  # line 6
            elif not better(self.lbp[w_i].o, O_i.o):  # line 9
                last = self.lbp[w_i]
                last.w_start += 1  # line 10
                self.lbp[w_i] = self.MTKN(w_i)[-1]  # line 12, whether the object leaves the list or not
                if last.w_start > last.w_end:  # line 11
                    self.super_MTKN.remove(last)  # line 13


# Section 5: the replica, and who is refreshed.


@dataclass
class Mapping:
    """What the replica holds of an id, and when the stream spoke of it last."""

    id: int
    value: float
    t: int = 0
    refreshed: int = 0
    best_before: int = 0
    interval: int = 1


Policy = Callable[[Sequence[Mapping], int], list[Mapping]]
"""Returns the elected set of a candidate set, which comes in the order of the list, and a budget."""


def TSM(candidates: Sequence[Mapping], gamma: int) -> list[Mapping]:
    """Section 5.2.1: the top of the list."""
    return list(candidates[:gamma])


def BSM(k: int) -> Policy:
    """Section 5.2.2: around the border of K-list and N-list.

    The paper does not say how many of each: half of the budget lies above the border. Where the list ends or begins
    before they do, they move.
    """

    def elect(candidates: Sequence[Mapping], gamma: int) -> list[Mapping]:
        first = k + 1 - gamma // 2  # counted from 1
        while first > 1 and first + gamma - 1 > len(candidates):
            first -= 1
        return list(candidates[max(first, 1) - 1 :][:gamma])

    return elect


def ASM(candidates: Sequence[Mapping], gamma: int) -> list[Mapping]:  # noqa: ARG001 - section 5.2.3: no limit
    """Section 5.2.3: all of the list."""
    return list(candidates)


def LRU(candidates: Sequence[Mapping], gamma: int) -> list[Mapping]:
    """Least recently refreshed first; ties in the order of the list."""
    return sorted(candidates, key=lambda mapping: mapping.refreshed)[:gamma]


def WBM(now: int, size: int, slide: int) -> Policy:
    """Section 3.2: expired mappings by min(L, V), then by best-before time; then the others, by that.

    I(t) leads to the next expiration after t: as many change intervals after the best-before time as that takes.
    """

    def score(mapping: Mapping) -> int:
        L = -(-(mapping.t + size - now) // slide)
        expiration = mapping.best_before
        while expiration <= now:
            expiration += mapping.interval
        V = -(-(expiration - now) // slide)
        return min(L, V)

    def elect(candidates: Sequence[Mapping], gamma: int) -> list[Mapping]:
        expired = [mapping for mapping in candidates if mapping.best_before <= now]
        others = [mapping for mapping in candidates if mapping.best_before > now]
        expired.sort(key=lambda mapping: (-score(mapping), mapping.best_before))
        others.sort(key=lambda mapping: mapping.best_before)
        return [*expired, *others][:gamma]

    return elect


@dataclass
class AcquaTop:
    """Algorithm 5 and Figure 8: the list proposes, the policy ranks, and the maintainer refreshes the elected set."""

    topk: TopkN
    R: dict[int, Mapping]
    service: Callable[[int], float]
    policy: Policy
    gamma: int
    elected: list[list[int]] = field(default_factory=list)

    def arrive(self, name: int, score_S: float, t: int) -> None:
        """Line 6: join an object with the replica's value."""
        self.topk.UpdateMTKN(Joined(name, t, score_S, self.R[name].value))

    def evaluate(self) -> list[int]:
        """Lines 9-13."""
        return self.topk.evaluate(self.UpdateReplica())

    def UpdateReplica(self) -> dict[int, float]:
        """Lines 18-26."""
        now = self.topk.end(self.topk.w)
        candidates = [replace(self.R[each.o.id], t=each.o.time) for each in self.topk.super_MTKN]
        elected_set = self.policy(candidates, self.gamma)  # line 19
        changed_objects = {}
        for O_i in elected_set:  # line 20
            new = self.service(O_i.id)
            self.R[O_i.id].refreshed = now
            if new != self.R[O_i.id].value:  # line 21
                self.R[O_i.id].value = new  # line 22
                changed_objects[O_i.id] = new  # line 23
        self.elected.append([O_i.id for O_i in elected_set])
        return changed_objects  # line 26
