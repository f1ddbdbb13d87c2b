"""What the routes take and give, for OpenAPI."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

Responses = dict[int | str, dict[str, Any]]


class Refused(BaseModel):
    """Why something was not done; `line` and `column` (from 1) say where in the text, if that is known."""

    error: str
    problems: list[str] = []
    line: int | None = None
    column: int | None = None


class Stream(BaseModel):
    """What the stream is."""

    engine: str
    algorithm: str
    time: str
    id: str
    services: list[str]
    columns: dict[str, str]
    limits: dict[str, int | str]
    numbers: dict[str, Any]


class Healthy(BaseModel):
    """How the stream is: live, quiet (no events come), ended, failed or gone; `silence` is in seconds."""

    state: str | None
    health: str | None
    says: str | None
    silence: float | None


class Entry(BaseModel):
    """A query, and how it stands: active, paused, waiting (for history), pending, or suspended with an error."""

    name: str
    state: str
    query: dict[str, Any]
    pending: str | None = None
    error: str | None = None


class Listed(BaseModel):
    """All queries."""

    queries: list[Entry]


class Row(BaseModel):
    """A row of an answer; `was` is its rank in the answer before, null for one that is new.

    Rows of a set have no rank, now or before; `new` says of them whether they were not in the answer before.

    In a joined query's answer `age` says how many seconds old the remote value is, null where it is a default.
    """

    rank: int | None
    was: int | None
    id: int | str
    score: float | str
    time: str | int
    partition: Any = None
    values: dict[str, Any] = {}
    age: float | None = None
    new: bool | None = None


class Answer(BaseModel):
    """The best of a window; times are ISO 8601 in UTC, or numbers where the stream has numbers or counts events.

    A window of all time has no start.
    """

    query: str
    start: str | int | None
    end: str | int
    exact: bool
    why: str | None
    provisional: bool
    threshold: float | str | None
    spent: dict[str, int] | None = None
    rows: list[Row]


class PlacedRow(BaseModel):
    """A row of the ranking as it stands."""

    rank: int | None
    id: int | str
    score: float | str
    time: str | int
    partition: Any = None
    values: dict[str, Any] = {}


class Place(BaseModel):
    """Where an id stands: "ranked" with its `row`, "below k", or "absent" from the window, where all ids are kept.

    `above` and `below` are the rows beside it; of an id that is not ranked, `above` is the last row of the ranking.
    """

    query: str
    id: str
    stands: Literal["ranked", "below k", "absent"]
    row: PlacedRow | None
    above: PlacedRow | None
    below: PlacedRow | None
    start: str | int | None
    end: str | int | None
    exact: bool
    why: str | None
    provisional: bool


class Answers(BaseModel):
    """Answers, latest first."""

    answers: list[Answer]


def _body(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}


def _text(example: str) -> dict[str, Any]:
    return {"schema": {"type": "string"}, "example": example}


TOML = '[[query]]\nname = "largest"\nk = 10\nscore = "price * volume"\nsize = "1 hour"\nslide = "10 minutes"\n'
SQL = (
    "SELECT symbol, price * volume AS score FROM HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR) "
    "ORDER BY score DESC LIMIT 10"
)
REGISTER = _body(
    {
        "application/json": {"schema": {"type": ["object", "array"]}},
        "application/toml": _text(TOML),
        "application/sql": _text(SQL),
        "application/sparql-query": _text("REGISTER STREAM :largest AS SELECT …"),
    }
)
_PAUSED = {"type": "object", "required": ["state"], "properties": {"state": {"enum": ["paused", "active"]}}}
STATE = _body({"application/json": {"schema": _PAUSED}})
HEALTH: Responses = {200: {"model": Healthy}, 503: {"model": Healthy}}
MISSING: Responses = {404: {"model": Refused, "description": "There is no such query."}}
FAILED: Responses = {500: {"model": Refused, "description": "The server's log says why."}}
REFUSED: Responses = {
    401: {"model": Refused, "description": "Without the token."},
    409: {"model": Refused, "description": "The queries of this stream cannot be changed while it runs."},
    413: {"model": Refused, "description": "Too large."},
    415: {"model": Refused, "description": "No language that is known."},
    422: {"model": Refused, "description": "What is wrong with the text."},
}
