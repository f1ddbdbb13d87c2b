"""Everything that OpenAPI says can be asked, and what one would not ask: no crash, and replies as promised."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings

from tests.serve.conftest import TOKEN

schemathesis = pytest.importorskip("schemathesis")


def test_replies_are_as_promised(client: httpx2.Client) -> None:
    schema = schemathesis.openapi.from_url(str(client.base_url.join("/openapi.json"))).exclude(path="/api/feed")
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy())
        def holds(case: Any) -> None:
            reply = case.call(headers={"authorization": f"Bearer {TOKEN}"})
            unwell = reply.status_code == 503 and case.path.startswith("/healthz")
            assert reply.status_code < 500 or unwell, reply.text
            unchecked = [schemathesis.checks.positive_data_acceptance]
            unchecked += [schemathesis.checks.not_a_server_error] if unwell else []
            case.validate_response(reply, excluded_checks=unchecked)

        holds()


def test_the_description_is_whole(client: httpx2.Client) -> None:
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {
        "/healthz", "/healthz/live", "/healthz/ready", "/metrics", "/api/stream", "/api/queries",
        "/api/queries/{name}", "/api/answers",
        "/api/answers/{name}", "/api/rank/{name}", "/api/explain", "/api/check", "/api/feed",
    }  # fmt: skip
    assert set(described["paths"]["/api/queries"]["post"]["requestBody"]["content"]) == {
        "application/json", "application/toml", "application/sql", "application/sparql-query",
    }  # fmt: skip
    assert described["paths"]["/api/queries/{name}"]["delete"]["security"] == [{"HTTPBearer": []}]
