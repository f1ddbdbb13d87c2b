"""Answers of windows that are still open: shown when they look different, and only then."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from tests.groups import rankings


@pytest.mark.parametrize("window", [sb.Window(20, slide=5), sb.Window("20 events", slide="5 events")], ids=str)
@pytest.mark.parametrize("restored", [False, True])
def test_an_open_window_is_shown_again_only_when_it_looks_different(window: sb.Window, restored: bool) -> None:
    rng = np.random.default_rng(1)
    monitor = sb.Monitor([sb.Query("soon", k=2, score="x", window=window, emit="early")], time="t", id="id")
    shown: dict[int, list[sb.Row]] = {}
    final, again = set(), 0
    for t in range(0, 120, 2):
        answers = [*monitor.push([{"t": t, "id": t, "x": float(rng.integers(50))}]), *monitor.advance(t)]
        if restored:
            monitor = sb.Monitor.restore(monitor.snapshot())
        for answer in answers:
            if answer.provisional:
                assert shown.get(answer.end) != answer.rows, "it was shown before"
                assert answer.end not in final
                again += answer.end in shown
                shown[answer.end] = answer.rows
            else:
                final.add(answer.end)
        assert set(rankings(monitor)[0].early_digests) == {("soon", end) for end in shown if end not in final}
    assert len(final) > 5 < again
