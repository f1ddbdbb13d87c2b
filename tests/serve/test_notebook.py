"""Leaderboards in a notebook: live where there is a kernel, as text elsewhere; answers as frames in one call."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.errors import QueryError
from skyband.spark import Control
from skyband.spark.checkpoint import Checkpoint
from tests.serve.conftest import eventually

NASTY = "<script>alert(1)</script>"
QUERY = sb.Query("top", k=2, score="x", window=sb.Window(10), distinct="best")


def at(folder: Path, end: int, *ids: str) -> Control:
    """Make a stream whose last window ended there with these ids."""
    checkpoint = Checkpoint(folder)
    if not (folder / "skyband").exists():
        identity = {"time": "t", "id": "id", "time_unit": None, "id_type": "string", "algorithm": "staircase"}
        schema = pa.schema([("t", pa.int64()), ("id", pa.string()), ("x", pa.float64())])
        checkpoint.open({**identity, "placement": "driver"}, schema, [QUERY.as_dict()])
        checkpoint.mark("running")
    monitor = sb.Monitor([QUERY], time="t", id="id")
    scores = np.arange(len(ids), 0, -1.0)
    monitor.push({"t": np.full(len(ids), end - 5), "id": list(ids), "x": scores})
    answers = monitor.advance(end)
    window = {"window_start": str(end - 10), "window_end": str(end), "rows": len(ids), "exact": True, "why": None}
    listed = [{"name": "top", "state": "active", "query": QUERY.as_dict()}]
    checkpoint.show({"batch": end, "queries": listed, "windows": {"top": window}}, answers.table(quality=True))
    return Control(folder)


def test_text_where_there_is_no_notebook(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert at(tmp_path, 10, "ann", "bob").show() is None
    assert capsys.readouterr().out.split() == ["top,", "to", "10", "1", "new", "ann", "2", "2", "new", "bob", "1"]
    with pytest.raises(QueryError, match="there is no query 'x'; there are 'top'"):
        Control(tmp_path).show("x")


def test_tables_that_follow_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ipython, display = pytest.importorskip("IPython"), pytest.importorskip("IPython.display")
    drawn: list[str] = []

    class Output:
        def update(self, html: Any) -> None:
            drawn.append(html.data)

    def shown(html: Any, display_id: bool) -> Output:
        assert display_id
        drawn.append(html.data)
        return Output()

    monkeypatch.setattr(ipython, "get_ipython", lambda: types.SimpleNamespace(kernel=object()))
    monkeypatch.setattr(display, "display", shown)
    control = at(tmp_path, 10, "ann", NASTY)
    live = control.show("top", every=0.01)
    assert live is not None
    try:
        assert "<b>ann</b>" in drawn[0]
        assert NASTY not in drawn[0]
        assert "&lt;script&gt;" in drawn[0]
        at(tmp_path, 20, "bob", "ann")
        eventually(lambda: "▼1" in drawn[-1])  # rows and status are two files: between them it shows half a change
        assert drawn[-1].index("<b>bob</b>") < drawn[-1].index("<b>ann</b>")
    finally:
        live.stop()
    at(tmp_path, 30, "cat")
    assert "<b>cat</b>" not in drawn[-1]


def test_frames_in_one_call(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    control = at(tmp_path, 10, "ann", "bob")
    assert control.answers()["id"].to_pylist() == control.answers("top")["id"].to_pylist() == ["ann", "bob"]
    assert control.to_pandas("top")["id"].tolist() == ["ann", "bob"]
    events = {"t": [1, 12], "id": ["ann", "bob"], "x": [1.0, 2.0]}
    assert sb.run(QUERY, events, time="t", id="id").to_pandas()["id"].tolist() == ["ann", "bob"]
    monitor = sb.Monitor([QUERY], time="t", id="id")
    monitor.push(events)
    assert monitor.advance(20).to_pandas()["score"].tolist() == [1.0, 2.0]
