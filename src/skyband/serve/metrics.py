"""The numbers as Prometheus reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

from skyband.serve.vitals import WELL, Health

if TYPE_CHECKING:
    from skyband.serve.edge import Edge

HEALTH = get_args(Health)


def exposition(edge: Edge) -> str:
    """Return all numbers in the text format of Prometheus."""
    numbers, boards, feed = edge.standings.numbers, edge.standings.boards, edge.feed
    states = Counter(board.entry["state"] for board in boards.values())
    last = {name: board.answers[-1] for name, board in boards.items() if board.answers}
    lines: list[str] = []

    def add(name: str, kind: str, what: str, values: Mapping[str, Any] | Any, label: str = "") -> None:
        labelled = values if isinstance(values, Mapping) else {"": values}
        known = {key: value for key, value in labelled.items() if value is not None}
        if known:
            lines.extend([f"# HELP skyband_{name} {what}", f"# TYPE skyband_{name} {kind}"])
        for key, value in known.items():
            named = f'{{{label}="{_escaped(key)}"}}' if label else ""
            lines.append(f"skyband_{name}{named} {_number(value)}")

    health = numbers.get("health")
    add("stream_up", "gauge", "Whether the stream runs, quiet or not.", int(health in WELL))
    add(
        "stream_health", "gauge", "Which of these the stream is.", {one: int(one == health) for one in HEALTH}, "health"
    )
    add("silence_seconds", "gauge", "For how long no event has come.", numbers.get("silence"))
    add("rows_per_second", "gauge", "Rows read a second, lately.", numbers.get("rows_per_second"))
    add("watermark_lag_seconds", "gauge", "How far the watermark is behind the clock.", numbers.get("lag"))
    add("rows_total", "counter", "Rows read.", numbers.get("rows"))
    add("late_rows_total", "counter", "Rows that missed all their windows.", numbers.get("late"))
    add("partly_late_rows_total", "counter", "Rows that missed some of their windows.", numbers.get("partly_late"))
    add("rejected_rows_total", "counter", "Rows without a score, a time or an id, or ahead.", numbers.get("rejected"))
    add("ahead_rows_total", "counter", "Rows too far ahead of the clock.", numbers.get("ahead"))
    add("degraded", "gauge", "Whether most of the last batch was rejected.", int(bool(numbers.get("degraded"))))
    add("kept_events", "gauge", "Candidate events that are kept.", numbers.get("kept"))
    add("kept_events_bound", "gauge", "How many can be kept at most as things stand.", numbers.get("bound"))
    add("batch", "gauge", "Number of the last batch.", numbers.get("batch"))
    add("watermark_seconds", "gauge", "The watermark, in seconds since 1970.", _seconds(numbers.get("watermark")))
    add("last_batch_seconds", "gauge", "When the last batch ended.", _seconds(numbers.get("last_batch")))
    add("answers_total", "counter", "Answers shown since the server was started.", numbers.get("answers"))
    for name, count in edge.standings.spent.items():
        add(f"remote_{name}_total", "counter", f"Remote ids: {name}, since the server was started.", count)
    add("queries", "gauge", "Queries by their state.", states, "state")
    add("threshold", "gauge", "Score of the k-th row.", {n: a["threshold"] for n, a in last.items()}, "query")
    add("answer_exact", "gauge", "Whether the last answer is exact.", {n: a["exact"] for n, a in last.items()}, "query")
    add("feed_readers", "gauge", "Who reads the feed.", len(feed.readers))
    add("feed_missed_messages_total", "counter", "Messages that slow readers did not get.", feed.missed)
    add("feed_cut_off_readers_total", "counter", "Readers who took nothing for too long.", feed.cut_off)
    return "\n".join(lines) + "\n"


def _seconds(moment: str | int | None) -> float | None:
    return datetime.fromisoformat(moment).timestamp() if isinstance(moment, str) else None


def _number(value: Any) -> str:
    return {"Infinity": "+Inf", "-Infinity": "-Inf"}.get(value) or str(float(value)).removesuffix(".0")


def _escaped(text: str) -> str:
    r"""Return a label's value, as the format wants it.

    Examples
    --------
    >>> _escaped('a "b"\\')
    'a \\"b\\"\\\\'
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
