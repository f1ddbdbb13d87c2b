"""A feed of what changed on a leaderboard, and the leaderboard rebuilt from nothing but the feed."""

from __future__ import annotations

import random

import skyband as sb
from skyband.answers.changes import fold


def rounds(count: int = 400, seed: int = 5) -> list[dict[str, object]]:
    """Make up the points that players score, one round a second."""
    rng = random.Random(seed)
    players = ["Ada", "Bob", "Cyd", "Dan", "Eve", "Fay"]
    return [{"second": n, "player": rng.choice(players), "points": rng.randint(0, 1000)} for n in range(count)]


def main() -> None:
    """Print the feed; check that it rebuilds each answer."""
    query = sb.Query(
        "best round", k=3, score="points", distinct="best", emit="changes",
        window=sb.Window("2 minutes", slide="30 seconds"),
    )  # fmt: skip
    board: list[sb.Row] = []
    for answer in sb.run(query, rounds(), time="second", id="player", time_unit="s"):
        print(f"{answer.end:%M:%S}")
        for change in answer.changes:
            ranks = f"{change.previous_rank or '-'} to {change.rank or '-'}"
            print(f"  {change.row.id} {change.kind}: {ranks}, {change.row.score:g} points")
        board = fold(board, answer.changes)
        assert board == answer.rows
    print("final board:", ", ".join(f"{row.rank}. {row.id} {row.score:g}" for row in board))


if __name__ == "__main__":
    main()
