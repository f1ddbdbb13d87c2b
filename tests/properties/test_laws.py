"""Laws that hold for any stream; hypothesis looks for one that breaks them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, note, settings

import skyband as sb
from skyband.answers.changes import fold
from tests.conformance.registry import algorithms, ranks
from tests.oracle import Ask, Event
from tests.streams import Workload, assert_same, query_of, replies_of, run_through, table_of

SCORES = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(allow_nan=True, allow_infinity=True),
    st.none(),
)
EVENTS = st.builds(
    Event,
    time=st.one_of(st.integers(-40, 80), st.none()),
    id=st.one_of(st.integers(0, 5), st.none()),
    score=SCORES,
    part=st.sampled_from([None, "p", "q"]),
    note=st.sampled_from([None, "", "a", "b"]),
    size=st.sampled_from([None, 0.0, 1.0, float("nan")]),
)
TIED = st.builds(
    Event,
    time=st.sampled_from([0, 10]),
    id=st.just(1),
    score=st.sampled_from([0.0, -0.0, 1.0]),
    part=st.sampled_from([None, "p"]),
    note=st.sampled_from("abcdefgh"),
    size=st.sampled_from([None, 1.0, 2.0, float("nan")]),
)


@st.composite
def asks(draw: st.DrawFn, /, **fixed: Any) -> Ask:
    size = draw(st.integers(1, 25))
    counts = fixed.get("counts", draw(st.booleans()))
    ask = Ask(
        draw(st.sampled_from("abcdef")),
        draw(st.integers(1, 6)),
        size,
        draw(st.integers(1, size)),
        0 if counts else draw(st.integers(-30, 30)),
        "left" if counts else draw(st.sampled_from(["left", "right"])),
        counts,
    )
    return replace(ask, **fixed)


@st.composite
def workloads(draw: st.DrawFn, most: int = 4, events: st.SearchStrategy[Event] = EVENTS, least: int = 0) -> Workload:
    common = {
        "counts": draw(st.booleans()),
        "distinct": draw(st.sampled_from([None, "best", "latest"])),
        "order": draw(st.sampled_from(["desc", "asc"])),
        "partitioned": draw(st.booleans()),
    }
    queries = draw(st.lists(asks(**common), min_size=1, max_size=most, unique_by=lambda ask: ask.name))
    stream = draw(st.lists(events, min_size=least, max_size=50))
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    delay = draw(st.sampled_from([None, 0, 5, 200]))
    return Workload(0, tuple(queries), tuple(stream), tuple(cuts), delay)


@pytest.mark.parametrize("algorithm", algorithms())
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_cut_into_batches_does_not_matter_where_events_differ_in_what_is_selected_alone(
    algorithm: str, data: st.DataObject
) -> None:
    """With snapshots in between: what an answer shows of events that tie depends on the events alone."""
    workload = data.draw(workloads(events=TIED, least=12))
    selects = st.sampled_from([("note",), ("size",), ("note", "size"), ("size", "note"), ()])
    asks = tuple(replace(ask, select=data.draw(selects), **ranks(algorithm)) for ask in workload.asks)
    workload = replace(workload, asks=asks, delay=data.draw(st.sampled_from([None, 200])))
    for cuts in (workload.cuts, (), tuple(range(len(workload.events)))):
        cut = replace(workload, cuts=cuts)
        assert_same(replies_of(answers_of(cut, algorithm, saved=True)), cut.truth().replies, algorithm)


def answers_of(workload: Workload, algorithm: str = "staircase", saved: bool = False) -> list[sb.Answer]:
    return run_through(sb.Monitor(workload.queries(), algorithm=algorithm, time="t", id="id"), workload, saved)


@pytest.mark.parametrize("algorithm", algorithms())
@settings(max_examples=120, deadline=None)
@given(workload=workloads())
def test_equals_the_oracle(algorithm: str, workload: Workload) -> None:
    workload = replace(workload, asks=tuple(replace(ask, **ranks(algorithm)) for ask in workload.asks))
    assert_same(replies_of(answers_of(workload, algorithm)), workload.truth().replies, algorithm)


@settings(max_examples=60, deadline=None)
@given(workload=workloads())
def test_many_together_answer_as_each_alone_where_nothing_is_late(workload: Workload) -> None:
    calm = replace(workload, delay=None)
    together = replies_of(answers_of(calm))
    for ask in calm.asks:
        alone = replies_of(answers_of(replace(calm, asks=(ask,))))
        assert_same([reply for reply in together if reply.query == ask.name], alone, ask.name)


@settings(max_examples=60, deadline=None)
@given(workload=workloads(most=1))
def test_the_top_k_is_a_prefix_of_the_top_k_plus_one(workload: Workload) -> None:
    (ask,) = workload.asks
    more = replies_of(answers_of(replace(workload, asks=(replace(ask, k=ask.k + 1),))))
    for less, longer in zip(replies_of(answers_of(workload)), more, strict=True):
        assert less.rows == [row for row in longer.rows if row[1] <= ask.k]


@settings(max_examples=60, deadline=None)
@given(workload=workloads(most=1))
def test_slide_equal_to_size_puts_each_event_into_one_window(workload: Workload) -> None:
    (ask,) = workload.asks
    all_of_it = replace(ask, k=1000, slide=ask.size, distinct=None)
    workload = replace(workload, asks=(all_of_it,), delay=None)
    rows = [row for reply in replies_of(answers_of(workload)) for row in reply.rows]
    assert len(rows) == len(workload.truth().events)


@settings(max_examples=60, deadline=None)
@given(workload=workloads(most=2))
def test_a_constant_partition_equals_none(workload: Workload) -> None:
    plain = replace(workload, asks=tuple(replace(ask, partitioned=False) for ask in workload.asks))
    constant = [replace(query, partition_by="'all'") for query in plain.queries()]
    found = replies_of(run_through(sb.Monitor(constant, time="t", id="id"), plain))
    for mine, right in zip(found, replies_of(answers_of(plain)), strict=True):
        assert [row[1:] for row in mine.rows] == [row[1:] for row in right.rows]


@settings(max_examples=80, deadline=None)
@given(workload=workloads(most=2))
def test_changes_fold_back_into_answers(workload: Workload) -> None:
    queries = [query_of(ask, emit="changes") for ask in workload.asks]
    answers = run_through(sb.Monitor(queries, time="t", id="id"), workload)
    assert_same(replies_of(answers), replies_of(answers_of(workload)), "emit changes")
    held: dict[str, list[sb.Row]] = {}
    for answer in answers:
        note(f"{answer.query} {answer.changes}")
        held[answer.query] = fold(held.get(answer.query, []), answer.changes)
        assert held[answer.query] == answer.rows


@settings(max_examples=60, deadline=None)
@given(workload=workloads(most=1))
@pytest.mark.parametrize("emit", ["entered", "left"])
def test_entered_and_left_are_the_differences_of_answers(emit: str, workload: Workload) -> None:
    queries = [query_of(ask, emit=emit) for ask in workload.asks]
    before: Counter[tuple[Any, ...]] = Counter()
    for answer in run_through(sb.Monitor(queries, time="t", id="id"), workload):
        now = Counter((row.partition, row.id, row.time, row.score) for row in answer.rows)
        rows = [change.row for change in answer.changes]
        found = Counter((row.partition, row.id, row.time, row.score) for row in rows)
        assert found == (now - before if emit == "entered" else before - now)
        before = now


@settings(max_examples=60, deadline=None)
@given(workload=workloads(most=2))
def test_the_last_provisional_answer_is_right_for_what_has_come(workload: Workload) -> None:
    queries = [query_of(ask, emit="early") for ask in workload.asks]
    monitor = sb.Monitor(queries, time="t", id="id")
    shown: dict[tuple[str, Any], list[sb.Row]] = {}
    for batch in workload.batches():
        for answer in [*monitor.push(table_of(batch, False)), *monitor.advance()]:
            shown[answer.query, answer.end] = answer.rows
    final = {(answer.query, answer.end): answer.rows for answer in monitor.finish()}
    for window, rows in final.items():
        assert shown.get(window, []) == rows
