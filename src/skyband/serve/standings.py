"""What people see of a stream: each query's last answers, what moved, the threshold, the numbers; ready for JSON.

All of it lives in the server's event loop, so nothing here needs a lock.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from skyband.answers.answer import Row
from skyband.answers.changes import seat
from skyband.answers.place import Place
from skyband.answers.standings import Moves, Standing
from skyband.queries.query import Query
from skyband.serve.feed import Feed
from skyband.serve.streams import AnswerView, StreamStats, StreamUpdate
from skyband.serve.vitals import Vitals

MOST_ANSWERS = 200  # of a query that are remembered
MOST_ROWS = 2_000  # that these have together, but the last one
SHOWN_ROWS = 50  # of an answer in the feed
THRESHOLDS = 120
PART = 10
EXACT_IN_JAVASCRIPT = 2**53


@dataclass
class Board:
    """One query: its entry in the list, and its last answers."""

    entry: dict[str, Any]
    answers: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_ANSWERS))
    thresholds: deque[tuple[Any, Any]] = field(default_factory=lambda: deque(maxlen=THRESHOLDS))
    last: AnswerView | None = None
    standing: Standing = field(init=False)

    def __post_init__(self) -> None:
        self.standing = Standing(Query.from_dict(self.entry["query"]).ranks_ids)

    def take(self, answer: AnswerView) -> dict[str, Any] | None:
        """Remember an answer; return it for JSON, or None where it is no news."""
        last = self.last
        if last is not None and not _newer(answer, last):
            return None
        if last is not None and last.end == answer.end and self.answers:
            self.answers.pop()
            self.thresholds.pop()
        shown = self._shown(answer)
        self.answers.append(shown)
        self.thresholds.append((shown["end"], shown["threshold"]))
        self.last = answer
        while len(self.answers) > 1 and sum(len(one["rows"]) for one in self.answers) > MOST_ROWS:
            self.answers.popleft()
        return shown

    def _shown(self, answer: AnswerView) -> dict[str, Any]:
        query = self.entry["query"]
        moves = self.standing.update(answer.rows, answer.end)
        full = query["k"] != "all" and len(answer.rows) >= query["k"] and "partition_by" not in query
        return {
            "query": answer.query,
            "start": plain(answer.start),
            "end": plain(answer.end),
            "exact": answer.exact,
            "why": answer.why,
            "provisional": answer.provisional,
            "threshold": plain(answer.rows[-1].score) if full else None,
            **({"spent": answer.spent} if answer.spent is not None else {}),
            "rows": [_row(row, moves, joined="join" in query) for row in answer.rows],
        }


def _newer(answer: AnswerView, last: AnswerView) -> bool:
    """Tell whether an answer replaces or follows another; of a window that is closed nothing new can come."""
    if type(answer.end) is not type(last.end):
        return True
    return answer.end > last.end or (answer.end == last.end and last.provisional)  # type: ignore[operator]


def _row(row: Row, moved: Moves, *, joined: bool) -> dict[str, Any]:
    was = moved.get(seat(row), row.rank)
    shown = {"rank": row.rank, "was": was, **_content(row)}
    if row.rank is None:
        shown["new"] = seat(row) in moved
    if joined:
        shown["age"] = None if row.age is None else row.age / 1_000_000
    return shown


def _content(row: Row) -> dict[str, Any]:
    shown = {"id": plain(row.id), "score": plain(row.score), "time": plain(row.time)}
    if row.partition is not None:
        shown["partition"] = plain(row.partition)
    if row.values:
        shown["values"] = {name: plain(value) for name, value in row.values.items()}
    return shown


def shown_place(place: Place) -> dict[str, Any]:
    """Return where an id stands, for JSON."""
    rows = {name: getattr(place, name) for name in ("row", "above", "below")}
    return {
        "query": place.query,
        "id": str(place.id),
        "stands": place.stands,
        **{name: None if row is None else {"rank": row.rank, **_content(row)} for name, row in rows.items()},
        "start": plain(place.start),
        "end": plain(place.end),
        "exact": place.exact,
        "why": place.why,
        "provisional": place.provisional,
    }


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it and JavaScript can read it without loss.

    Examples
    --------
    >>> plain(float("inf")), plain(2**60), plain(datetime(2026, 3, 2, tzinfo=UTC))
    ('Infinity', '1152921504606846976', '2026-03-02T00:00:00Z')
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT_IN_JAVASCRIPT else str(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=UTC)
        return zoned.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return str(value)


class Standings:
    """All queries of a stream, and its numbers; what is new goes into the feed."""

    def __init__(self, feed: Feed, clock: Callable[[], float]) -> None:
        self.feed = feed
        self.boards: dict[str, Board] = {}
        self.vitals = Vitals(clock)
        self.answers = 0
        self.spent = dict.fromkeys(("refreshes", "failures"), 0)
        self._latest: StreamStats | None = None

    async def take(self, update: StreamUpdate) -> None:
        """Take over what is new; of much, readers get a part at a time, or their queues would overflow."""
        self._take_queries(update.queries)
        for number, answer in enumerate(update.answers, 1):
            if number % PART == 0:
                await asyncio.sleep(0)
            board = self.boards.get(answer.query)
            shown = board.take(answer) if board is not None else None
            if shown is not None:
                self.answers += 1
                for name in self.spent:
                    self.spent[name] += (answer.spent or {}).get(name, 0)
                self.feed.publish("answer", brief(shown), answer.query)
        self._latest = update.stats
        self.vitals.note(update.stats)
        self.publish_numbers()

    def publish_numbers(self) -> None:
        """Send the numbers as they are now."""
        self.feed.publish("numbers", self.numbers)

    def _take_queries(self, entries: Sequence[dict[str, Any]]) -> None:
        """Follow the list of queries; one that was changed begins anew."""
        kept, self.boards = self.boards, {}
        before = [board.entry for board in kept.values()]
        now = [{key: value for key, value in entry.items() if key != "latest"} for entry in entries]
        for entry in now:
            board = kept.get(entry["name"])
            if board is None or board.entry["query"] != entry["query"]:
                board = Board(entry)
            board.entry = entry
            self.boards[entry["name"]] = board
        if now != before:
            self.feed.publish("queries", {"queries": now})

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the stream at this moment; empty before the first poll."""
        stats = self._latest
        if stats is None:
            return {}
        return {
            "state": stats.running,
            **self.vitals.shown(stats),
            **{name: plain(value) for name, value in vars(stats).items() if name != "running"},
            "answers": self.answers,
            "refreshes": self._refreshes(),
            "last_batch": _moment(stats.last_batch),
            "sign_of_life": _moment(stats.sign_of_life),
        }

    def _refreshes(self) -> dict[str, int] | None:
        """Return what the last answers of joined queries spent of their budgets; None where there is no such query."""
        joined = [board for board in self.boards.values() if "join" in board.entry["query"]]
        if not joined:
            return None
        budgets = [board.entry["query"]["join"].get("budget") for board in joined]
        last = [board.last.spent for board in joined if board.last is not None and board.last.spent is not None]
        return {
            "spent": sum(one["refreshes"] for one in last),
            "budget": sum(budget or 0 for budget in budgets),
            "failures": self.spent["failures"],
        }

    def snapshot(self) -> dict[str, Any]:
        """Return all that a newcomer needs."""
        queries = [
            {
                **board.entry,
                "latest": brief(board.answers[-1]) if board.answers else None,
                "thresholds": list(board.thresholds),
            }
            for board in self.boards.values()
        ]
        return {"queries": queries, "numbers": self.numbers}


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else str(plain(datetime.fromtimestamp(seconds, UTC)))


def brief(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with its first rows only, and how many more there are."""
    more = len(answer["rows"]) - SHOWN_ROWS
    return answer if more <= 0 else {**answer, "rows": answer["rows"][:SHOWN_ROWS], "more": more}
