"""Compares what an engine showed with the truth: every answer, row, flag, change and count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.engines import Outcome, Seen
from tests.simulation.truth import Reply, Truth


def judge(
    outcome: Outcome,
    truth: Truth,
    *,
    exact: bool = True,
    covers: bool = False,
    ends: bool = True,
    tables: bool = False,
    apart: bool = False,
) -> None:
    """Raise AssertionError at the first difference.

    Parameters
    ----------
    outcome, truth
        What was seen, and what is true.
    exact
        Whether the algorithm is.
    covers
        Whether a new query must be exact where others that rank alike have kept what it needs.
    ends
        Whether the stream ends; else windows that are still open are not answered.
    tables
        Whether answers are seen as tables, in which windows without rows do not show.
    apart
        Whether each partition is answered by itself.
    """
    pieces = truth.replies if ends else truth.replies[:-1]
    if apart:
        pieces = [[part for reply in piece for part in _by_partition(reply)] for piece in pieces]
    if tables:
        pieces = [[_as_in_a_table(reply) for reply in piece] for piece in pieces]
    if len(outcome.answers) != len(pieces):  # an engine that hands over everything at once
        pieces = [[reply for piece in pieces for reply in piece]]
    for place, (found, expected) in enumerate(zip(outcome.answers, pieces, strict=True)):
        when = "at the end" if ends and place == len(pieces) - 1 else f"after push {place + 1}"
        compare(found, expected, when, exact, covers)
    counts = {name: getattr(truth, name) for name in outcome.counts}
    assert outcome.counts == counts, f"counted {outcome.counts}\nexpected {counts}"


def compare(found: Sequence[Seen], expected: Sequence[Reply], when: str, exact: bool, covers: bool) -> None:
    assert len(found) == len({_key(answer) for answer in found}), f"{when}: a window twice"
    truth = {_key(reply): reply for reply in expected}
    for answer in found:
        what = f"{when}, {answer.query} [{answer.start}, {answer.end}){' early' * answer.provisional}"
        reply = truth.pop(_key(answer), None)
        assert reply is not None, f"{what}: not to be answered: {answer.rows}"
        if covers and reply.is_covered:
            reply.must_be_exact = True
        _check(answer, reply, what, exact)
    left = [reply for reply in truth.values() if reply.must_show]
    assert not left, f"{when}: not answered: {[(r.query, r.start, r.end, r.rows) for r in left]}"
    for part in {answer.part for answer in found}:
        timed = [(answer.provisional, answer.end) for answer in found if not answer.counts and answer.part == part]
        assert timed == sorted(timed), f"{when}: not in the order of their ends: {timed}"
    for name in {answer.query for answer in found if answer.counts}:  # each query numbers the events that it sees
        ends = [(answer.provisional, answer.end) for answer in found if answer.query == name]
        assert ends == sorted(ends), f"{when}, {name}: not in the order of their ends: {ends}"


def _key(one: Seen | Reply) -> tuple[str, int, bool, Any]:
    return one.query, one.end, one.provisional, one.part


def _check(answer: Seen, reply: Reply, what: str, exact: bool) -> None:
    assert answer.start == reply.start, what
    if answer.exact:
        assert exact, f"{what}: an approximate algorithm says that it is exact"
        if answer.rows is not None:
            rows = list(answer.rows)
            assert rows == reply.rows, f"{what}, exact\nfound    {rows}\nexpected {reply.rows}"
        assert answer.why is None, what
    else:
        assert not (exact and reply.must_be_exact), f"{what}: not exact, {answer.why}"
        reasons = {reply.why} if exact else {"approximate"} if reply.must_be_exact else {"approximate", reply.why}
        assert answer.why in reasons, f"{what}: {answer.why}"
    if reply.changes is not None and answer.exact:
        assert list(answer.changes) == reply.changes, f"{what}\nfound    {answer.changes}\nexpected {reply.changes}"


def _as_in_a_table(reply: Reply) -> Reply:
    """Let an answer without rows not show; it may have none where a query came after all of the window's events."""
    shown = reply.rows if reply.changes is None else reply.changes
    return replace(reply, must_show=reply.must_show and bool(shown) and (reply.must_be_exact or bool(reply.fresh)))


def _by_partition(reply: Reply) -> list[Reply]:
    changed = [row for _, row, *_ in reply.changes or ()]
    parts = dict.fromkeys(row[0] for row in (*reply.rows, *changed))
    return [
        replace(
            reply, part=part, rows=[row for row in reply.rows if row[0] == part],
            fresh=[other for other in reply.fresh if other == part],
            changes=None if reply.changes is None else [change for change in reply.changes if change[1][0] == part],
        )
        for part in parts
    ]  # fmt: skip
