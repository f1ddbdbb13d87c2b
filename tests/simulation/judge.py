"""Compares what an engine showed with the truth: every answer, row, flag, change and count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.simulation.engines import Outcome, Seen
from tests.simulation.truth import Reply, Truth


def judge(outcome: Outcome, truth: Truth, *, exact: bool = True, ends: bool = True, tables: bool = False) -> None:
    """Raise AssertionError at the first difference.

    Parameters
    ----------
    outcome, truth
        What was seen, and what is true.
    exact
        Whether the algorithm is.
    ends
        Whether the stream ends; else windows that are still open are not answered.
    tables
        Whether answers are seen as tables, in which windows without rows do not show.
    """
    pieces = truth.replies if ends else truth.replies[:-1]
    if tables:
        pieces = [[_as_in_a_table(reply) for reply in piece] for piece in pieces]
    if len(outcome.answers) != len(pieces):  # an engine that hands over everything at once
        pieces = [[reply for piece in pieces for reply in piece]]
    for place, (found, expected) in enumerate(zip(outcome.answers, pieces, strict=True)):
        when = "at the end" if ends and place == len(pieces) - 1 else f"after push {place + 1}"
        compare(found, expected, when, truth.from_the_start, exact)
    counts = {name: getattr(truth, name) for name in outcome.counts}
    assert outcome.counts == counts, f"counted {outcome.counts}\nexpected {counts}"


def compare(found: Sequence[Seen], expected: Sequence[Reply], when: str, begun: set[str], exact: bool) -> None:
    assert len(found) == len({(a.query, a.end, a.provisional) for a in found}), f"{when}: a window twice"
    truth = {(reply.query, reply.end, reply.provisional): reply for reply in expected}
    for answer in found:
        what = f"{when}, {answer.query} [{answer.start}, {answer.end}){' early' * answer.provisional}"
        reply = truth.pop((answer.query, answer.end, answer.provisional), None)
        if reply is not None:
            _check(answer, reply, what, exact)
        else:  # a query that came later may answer windows of before its first event
            assert answer.query not in begun, f"{what}: not to be answered: {answer.rows}"
            assert not answer.rows, f"{what}: not to be answered: {answer.rows}"
    left = [reply for reply in truth.values() if reply.must_show]
    assert not left, f"{when}: not answered: {[(r.query, r.start, r.end, r.rows) for r in left]}"
    timed = [(answer.provisional, answer.end) for answer in found if not answer.counts]
    assert timed == sorted(timed), f"{when}: not in the order of their ends: {timed}"
    for name in {answer.query for answer in found if answer.counts}:  # each query numbers the events that it sees
        ends = [(answer.provisional, answer.end) for answer in found if answer.query == name]
        assert ends == sorted(ends), f"{when}, {name}: not in the order of their ends: {ends}"


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
        reasons = {"warming up"} if exact else {"approximate"} if reply.must_be_exact else {"approximate", "warming up"}
        assert answer.why in reasons, f"{what}: {answer.why}"
    if reply.changes is not None and answer.exact:
        assert list(answer.changes) == reply.changes, f"{what}\nfound    {answer.changes}\nexpected {reply.changes}"


def _as_in_a_table(reply: Reply) -> Reply:
    shown = reply.rows if reply.changes is None else reply.changes
    return replace(reply, must_show=reply.must_show and bool(shown))
