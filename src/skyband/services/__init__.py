"""Where remote values come from: one protocol, `fetch(ids)`, and one place that decides how services are asked."""

from __future__ import annotations

from skyband.services.base import Service, ServiceError, ServiceTimeout
from skyband.services.function import Function
from skyband.services.gateway import Fetched, Gateway
from skyband.services.http import HttpJson
from skyband.services.limits import Limits, Traffic
from skyband.services.sparql import Sparql
from skyband.services.sql import Sql

__all__ = [
    "Fetched", "Function", "Gateway", "HttpJson", "Limits", "Service", "ServiceError", "ServiceTimeout", "Sparql",
    "Sql", "Traffic",
]  # fmt: skip
