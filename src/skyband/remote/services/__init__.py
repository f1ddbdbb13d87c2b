"""Where remote values come from: one protocol, `fetch(ids)`, and one place that decides how services are asked."""

from __future__ import annotations

from skyband.remote.services.base import Function, Limits, Service, ServiceError, ServiceTimeout
from skyband.remote.services.gateway import Fetched, Gateway, Traffic
from skyband.remote.services.http import HttpJson
from skyband.remote.services.sparql import Sparql
from skyband.remote.services.sql import Sql

__all__ = [
    "Fetched", "Function", "Gateway", "HttpJson", "Limits", "Service", "ServiceError", "ServiceTimeout", "Sparql",
    "Sql", "Traffic",
]  # fmt: skip
