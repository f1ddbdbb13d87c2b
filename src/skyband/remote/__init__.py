"""Remote data that keeps changing: services, the replica, who is refreshed, and the join window by window."""

from skyband.remote.remote import Remote
from skyband.remote.services import Function, HttpJson, Limits, Service, ServiceError, Sparql, Sql

__all__ = ["Function", "HttpJson", "Limits", "Remote", "Service", "ServiceError", "Sparql", "Sql"]
