"""Objects as columns: the order, the best, the list and replacement, against plain loops over single objects."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband.engine.measures import ROWS
from skyband.engine.partial_rows import CARRIED, ID, PANE, PART, REMOTE, STREAM, TIME, reduced
from skyband.errors import InputError
from skyband.remote import Remote
from skyband.remote.acquatop import acquatop
from skyband.remote.objects import Arrivals, FullWindow, JoinedObject, Objects, upsert
from skyband.remote.replica import Replica
from skyband.remote.services.base import find_ids, id_array
from skyband.windows import WindowGrid

SEEDS = range(60)


def drawn(seed: int, count: int, *, text: bool, ids: int = 10**6) -> list[JoinedObject]:
    """Return objects with many ties, some without a merit; each id once."""
    chance = random.Random(seed)
    names = chance.sample(range(ids), count)
    return [
        JoinedObject(
            f"u{name}" if text else name, chance.randrange(3), float(chance.randrange(4)), chance.randrange(3),
            1.0, math.nan if chance.random() < 0.2 else float(chance.randrange(-1, 3)), chance.randrange(4),
        )
        for name in names
    ]  # fmt: skip


def in_order(objects: list[JoinedObject]) -> list[JoinedObject]:
    merits = {one.id: (1, 0.0) if math.isnan(one.merit) else (0, -one.merit) for one in objects}
    return sorted(objects, key=lambda one: (*merits[one.id], *one.rank[1:]))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_and_the_best(seed: int) -> None:
    found = drawn(seed, seed, text=seed % 2 == 0)
    objects, wanted = Objects.from_rows(found), [one.id for one in in_order(found)]
    assert objects.id.take(pa.array(objects.best_first())).to_pylist() == wanted
    scored = [one.id for one in in_order(found) if not math.isnan(one.merit)]
    for k in (1, 2, 7, 100):
        assert objects.id.take(pa.array(objects.best(k))).to_pylist() == scored[:k]
    assert [one.id for one in objects.one_by_one()] == [one.id for one in found]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_list_of_a_full_window_is_what_a_walk_finds(seed: int) -> None:
    windows = WindowGrid(50, 10)
    store = FullWindow(windows=windows, score=lambda stream, value: np.where(np.isnan(value), np.nan, stream + value))
    store.go_to(0)
    chance = np.random.default_rng(seed)
    count = int(chance.integers(1, 400))
    value = np.where(chance.random(count) < 0.1, np.nan, 0.0)
    store.arrive(Arrivals.of(np.arange(count), chance.integers(0, 50, count), chance.integers(0, 50, count), value))
    for depth in (1, 3, 10):
        wanted: list[JoinedObject] = []
        for one in store.held().one_by_one():
            better = sum(other.end >= one.end for other in wanted)
            if not math.isnan(one.merit) and better < depth:
                wanted.append(one)
        assert store.listed(depth).id.to_pylist() == [one.id for one in wanted]


@pytest.mark.parametrize("order", [None, "asc", "desc"])
@pytest.mark.parametrize("seed", range(20))
def test_objects_replace_those_of_their_ids(seed: int, order: str | None) -> None:
    before, after = (drawn(10 * seed + i, 12, text=True, ids=20) for i in (1, 2))
    kept, taken = upsert(Objects.from_rows(before), Objects.from_rows(after), order)
    old, wanted, named = {one.id: one for one in before}, {one.id: one for one in before}, []
    sign = -1 if order == "asc" else 1
    for one in after:
        other = old.get(one.id)
        place = [(each.time, sign * each.stream, each.remote) for each in (one, other) if each is not None]
        named.append(other is None or (one.time >= other.time if order is None else place[0] >= place[1]))
        if named[-1]:
            wanted[one.id] = one
    assert taken.tolist() == named
    assert {one.id: (one.time, one.stream, one.remote) for one in kept.one_by_one()} == {
        name: (one.time, one.stream, one.remote) for name, one in wanted.items()
    }


def test_ids_of_another_kind_are_not_found() -> None:
    assert find_ids(pa.array([1, 2]), {"1": 0.0, 2: 0.0}).tolist() == [-1, 1]
    assert find_ids(pa.array(["1"]), {1: 0.0, 2**70: 0.0, "1": 0.0}).tolist() == [2]
    assert find_ids(id_array([]), [1]).tolist() == []
    assert id_array(np.array(["a"])).type == pa.string()


@pytest.mark.parametrize("columns", [("ids", "stream"), ("times",), ("remote",)])
def test_columns_of_different_lengths_are_refused(columns: tuple[str, ...]) -> None:
    join = acquatop(Remote(lambda _: {}), k=1, windows=WindowGrid(10, 5), score=np.add, budget=1)
    given: dict[str, Any] = {"ids": [1], "stream": [1.0], "times": [1], "remote": [1]}
    for name in columns:
        given[name] = given[name] * 2
    with pytest.raises(InputError, match="give as many of each"):
        join.arrive(**given)


def test_slots_that_were_looked_up_are_not_used_after_ids_have_gone() -> None:
    replica, names = Replica(capacity=2), pa.array([1, 2])
    replica.put([1, 2], [10.0, 20.0], at=0)
    assert replica.known(names).value.tolist() == [10.0, 20.0]
    replica.put([3, 4], [30.0, 40.0], at=1)
    np.testing.assert_array_equal(replica.known(names).value, [np.nan, np.nan])
    others = pa.array([5])
    assert replica.known(others).never.all()
    replica.put([5], [50.0], at=2)
    assert replica.known(others).value.tolist() == [50.0]


# Which event of an id counts.


def latest_of(rows: list[dict[str, Any]], by: list[str], order: str) -> list[dict[str, Any]]:
    """Return the row that counts of each key, with the number of all: one comparison after the other."""

    def place(row: dict[str, Any]) -> Any:
        carried = row[CARRIED + "x"]
        first = (0, 0.0) if carried is None else (-1, -carried)
        return row[TIME], -row[STREAM] if order == "asc" else row[STREAM], row[REMOTE], first

    found: dict[Any, dict[str, Any]] = {}
    counts: dict[Any, int] = {}
    for row in rows:
        key = (row[ID], row[PART], *(row[name] for name in by))
        counts[key] = counts.get(key, 0) + row[ROWS]
        if key not in found or place(row) > place(found[key]):
            found[key] = row
    return [row | {ROWS: counts[key]} for key, row in found.items()]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("seed", range(30))
def test_the_latest_row_of_each_key_counts(seed: int, order: str) -> None:
    chance = random.Random(seed)
    times = chance.choice([2, 1_000])  # with ties, or hardly any
    rows = [
        {
            PANE: chance.choice([-(2**60), 0, 7, 2**60]),
            ID: f"u{chance.randrange(6)}",
            PART: chance.choice([None, "a"]),
            TIME: chance.randrange(times),
            ROWS: chance.randrange(1, 5),
            STREAM: float(chance.randrange(2)),
            REMOTE: chance.randrange(2),
            CARRIED + "x": chance.choice([None, 1.0, 2.0]),
        }
        for _ in range(chance.randrange(1, 120))
    ]
    for by in ([], [PANE]):
        found = reduced(pa.Table.from_pylist(rows), by, {}, order).to_pylist()
        wanted = latest_of(rows, by, order)
        if not by:  # of equal rows any pane will do
            found, wanted = ([{**row, PANE: None} for row in some] for some in (found, wanted))
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
