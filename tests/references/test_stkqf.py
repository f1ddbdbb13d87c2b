"""STKQF equals its reference: answers of queries that come and go, virtual queries, cases, and what candidates hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms.stkqf.partitions import Partitions
from skyband.algorithms.stkqf.skyline import Need as FastNeed
from skyband.algorithms.stkqf.skyline import SQGrid, scan_for
from skyband.algorithms.stkqf.skyline import skyline as fast_skyline
from tests.groups import rankings
from tests.references import stkqf
from tests.references.objects import Object, ranked
from tests.references.stkqf import Need
from tests.references.test_mtops import Fast, ids_of, steps, workload

N_MAX, K_MAX, STEP = 32, 16, 2


@pytest.mark.parametrize("seed", range(60))
def test_skyline_cases_and_virtual_queries(seed: int) -> None:
    random = np.random.default_rng(seed)
    drawn = [Need(*pair) for pair in random.integers(1, 17, (int(random.integers(1, 9)), 2)).tolist()]
    Q_S, served = stkqf.skyline(drawn), fast_skyline(FastNeed(*q) for q in drawn)
    assert [(q.n, q.k) for q in served] == Q_S, f"seed {seed}"
    for n, k in random.integers(1, 20, (20, 2)).tolist():
        scan, scope = scan_for(FastNeed(n, k), served), stkqf.search_scope(Need(n, k), Q_S)
        assert (scan.case.value, scan.newer, scan.older) == scope, f"seed {seed}, ({n}, {k}) beside {Q_S}"
    grid, G = SQGrid(20, 30), stkqf.SQGrid(20, 30)
    grid.fill([FastNeed(*q) for q in drawn], now=0)
    for q in drawn:
        G.cells[G.cell(q)] = [q]
    assert [(v.n, v.k) for v in grid.virtual()] == G.V_S(), f"seed {seed}"
    assert all(any(stkqf.q_dominates(v, q) for v in G.V_S()) for q in drawn), f"seed {seed}: Theorem 2"


class Run:
    """A monitor and the reference beside it, over one stream and the same queries."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, np.random.default_rng(seed)
        # The first two fix how far the grid reaches, so that it never grows.
        self.queries = {"far": Need(N_MAX, 1), "deep": Need(4, K_MAX)}
        fast = [self.query(name, q) for name, q in self.queries.items()]
        self.monitor = sb.Monitor(fast, algorithm="stkqf", time="time", id="id")
        self.reference = stkqf.STKQF(N_MAX, K_MAX, width=2)
        for q in self.queries.values():
            self.reference.submit(q)
        self.came, self.t, self.cases = 0, 0, 0

    def query(self, name: str, q: Need) -> sb.Query:
        return sb.Query(name, k=q.k, score="F", window=sb.Window(q.n, slide=STEP))

    @property
    def algorithm(self) -> Any:
        (group,) = rankings(self.monitor)
        return group.algorithm

    def arrive(self) -> None:
        """Let a few objects arrive, let time pass, and compare the answers."""
        number = int(self.random.integers(0, 9))
        times = np.sort(self.random.integers(self.t, self.t + STEP, number)).tolist()
        falling = -0.1 * self.t if self.seed % 2 else 0.0
        scores = self.random.integers(0, 12, number) + falling
        objects = [
            Object(float(score), time, self.came + i)
            for i, (score, time) in enumerate(zip(scores, times, strict=True))
        ]  # fmt: skip
        self.came += number
        self.t += STEP
        self.monitor.push([{"time": o.time, "id": o.id, "F": o.F} for o in objects])
        for o in objects:
            self.reference.arrive(o)
        for answer in self.monitor.advance(self.t):
            if answer.end == self.t:
                expected = [o.id for o in self.reference.answer(self.queries[answer.query], self.t)]
                assert [row.id for row in answer.rows] == expected, f"{self}: {answer.query}"
                assert answer.exact, f"{self}: {answer.query}"
        self.reference.slide(self.t)
        self.compare()

    def compare(self) -> None:
        """Compare the virtual queries, and look for all meaningful objects among the candidates of both."""
        V_S = self.reference.G.V_S()
        assert [(v.n, v.k) for v in self.algorithm.grid.virtual()] == V_S, str(self)
        window = [o for i in sorted(self.reference.P) for o in self.reference.P[i]]
        needed = {o.id for v in V_S for o in stkqf.meaningful(window, v, self.t)}
        assert needed <= {o.id for C_i in self.reference.C.values() for o in C_i}, str(self)
        kept = [slot for keeper in self.algorithm.keepers.values() for slot in Partitions.kept(keeper).tolist()]
        assert needed <= {int(self.algorithm.store.key[slot]) for slot in kept}, str(self)

    def change(self) -> None:
        """Let a query come or go, and compare what is searched for it."""
        searched = len(self.reference.searched)
        going = [name for name in self.queries if name not in ("far", "deep")]
        if going and self.random.integers(3) == 0:
            name = str(self.random.choice(going))
            self.monitor.unregister(name)
            self.reference.delete(self.queries.pop(name))
        else:
            name = f"q{self.t}"
            q = Need(int(self.random.integers(2, N_MAX // STEP + 1)) * STEP, int(self.random.integers(1, K_MAX + 1)))
            self.queries[name] = q
            self.monitor.register(self.query(name, q))
            self.reference.submit(q)
        scopes = [(scan.case.value, scan.newer, scan.older) for scan, _, _ in self.algorithm.scans]
        assert scopes == self.reference.searched[searched:], str(self)
        self.cases += len(scopes)
        self.compare()

    def __str__(self) -> str:
        return f"seed {self.seed}, at {self.t}"


@pytest.mark.parametrize("seed", range(12))
def test_queries_come_and_go(seed: int) -> None:
    run = Run(seed)
    for step in range(45):
        run.arrive()
        if step > 3 and run.random.integers(2):
            run.change()
    assert run.cases > 0, "no query asked for more"
    assert run.reference.scanned > 0, "nothing was searched"


@pytest.mark.parametrize("algorithm", ["sap", "phbase", "phtree"])
@pytest.mark.parametrize("seed", range(20))
def test_partitioned_algorithms_keep_what_is_meaningful(algorithm: str, seed: int) -> None:
    """Of these the paper has an outline only. It fixes the answers, and what must be among the candidates."""
    queries, objects = workload(seed)
    fast = Fast(queries, algorithm)
    came: list[Object] = []
    for part, now in steps(objects):
        came += part
        fast.push(part, now)
        kept = set(ids_of(fast).values())
        for Q in queries:
            coming = now - Q.win + Q.slide - (now - Q.win - Q.offset) % Q.slide  # where its next window starts
            needed = {o.id for o in stkqf.meaningful(came, Need(Q.win, Q.k), now) if o.time >= coming}
            assert needed <= kept, f"seed {seed}, at {now}, {Q}"
    assert fast.answers, f"seed {seed}"
    by_name = {Q.name: Q for Q in queries}
    for (name, end), found in fast.answers.items():
        window = [o for o in came if end - by_name[name].win <= o.time < end]
        assert found == [o.id for o in ranked(window)[: by_name[name].k]], f"seed {seed}, {name} at {end}"
