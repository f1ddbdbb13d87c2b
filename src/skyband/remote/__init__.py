"""Remote data that keeps changing: services, the replica, refresh policies and budgets, joins window by window.

A new service is a module of `services`, a new policy a function of `policies` and a line in its registry.
"""

from skyband.remote.remote import Remote
from skyband.remote.services import Function, HttpJson, Limits, Service, ServiceError, Sparql, Sql

__all__ = ["Function", "HttpJson", "Limits", "Remote", "Service", "ServiceError", "Sparql", "Sql"]
