"""The most mentioned users with the most followers; the service that knows these may be asked for five ids a minute."""

from __future__ import annotations

import random
from collections.abc import Sequence

import skyband as sb
from skyband.remote import Limits

USERS = [f"user{number:02}" for number in range(40)]
MINUTE = 60_000_000


class Followers:
    """The remote side: everyone gains or loses followers all the time, and it tells nobody."""

    def __init__(self, seed: int = 11) -> None:
        self.rng = random.Random(seed)
        self.now = {user: self.rng.randint(0, 2_000) for user in USERS}

    def pass_time(self) -> None:
        """Let a minute pass."""
        for user in self.rng.sample(USERS, 8):
            self.now[user] = max(0, self.now[user] + self.rng.randint(-600, 600))

    def fetch(self, ids: Sequence[int | str]) -> dict[int | str, int | None]:
        """Answer a request, as any service does."""
        return {name: self.now.get(str(name)) for name in ids}


def mentions(minute: int, seed: int = 3) -> list[dict[str, object]]:
    """Make up the mentions of one minute."""
    rng = random.Random(seed * 1_000 + minute)
    some = rng.choices(USERS, weights=range(len(USERS), 0, -1), k=80)
    return [{"t": minute * MINUTE + rng.randrange(MINUTE), "user": user} for user in some]


def main() -> None:
    """Follow a stream for ten minutes; show what is known, and how that compares with the truth."""
    query = sb.Query(
        "influencers", k=5, score="200 * count(*) + followers", window=sb.Window("3 minutes", slide="1 minute"),
        join=sb.Join("followers", policy="AT-GAIN", budget=5),
    )  # fmt: skip
    remote = Followers()
    services = {"followers": sb.Remote(remote, limits=Limits(deadline=1.0), known=remote.now)}
    monitor = sb.Monitor([query], time="t", id="user", services=services)
    for minute in range(10):
        monitor.push(mentions(minute))
        remote.pass_time()
        for answer in monitor.advance((minute + 1) * MINUTE):
            print(f"minute {minute + 1}: {answer.refreshes} refreshed, {answer.stale} of {len(answer)} rows stale")
            for row in answer.rows:
                off = row.followers - remote.now[str(row.id)]
                print(f"  {row.rank}. {row.id} {row.score:g}, {row.age // MINUTE} minutes old, off by {off:g}")
    print(
        f"{services['followers'].traffic.ids} ids were asked for in {services['followers'].traffic.requests} requests"
    )


if __name__ == "__main__":
    main()
