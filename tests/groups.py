"""The groups of a monitor by kind, for tests that look inside."""

from __future__ import annotations

from skyband.engine.joins import JoinGroup
from skyband.engine.monitor import Monitor
from skyband.engine.ranking import RankingGroup


def rankings(monitor: Monitor) -> list[RankingGroup]:
    """Return the groups of queries that rank events."""
    return [group for group in monitor.groups if isinstance(group, RankingGroup)]


def joins(monitor: Monitor) -> list[JoinGroup]:
    """Return the groups of joined queries."""
    return [group for group in monitor.groups if isinstance(group, JoinGroup)]
