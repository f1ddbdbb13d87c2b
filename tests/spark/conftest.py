from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from skyband.spark.reducers import groups, guesses, ranking, thresholds
from tests.spark.kafka import Broker, broker_jars, connector_jars


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that all tests share: each makes topics of its own."""
    if shutil.which("java") is None:
        pytest.skip("Java is missing, which Kafka needs")
    if not (broker_jars() and connector_jars()):
        pytest.skip("Kafka's jars are missing: 'make kafka-jars' fetches them, with Maven")
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def bold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guess in small batches too, from few rows and hardly above k: guesses fail often, and must be mended."""
    for module in (guesses, ranking):
        monkeypatch.setattr(module, "EVERY", 8)
        monkeypatch.setattr(module, "SMALL", 200)
    monkeypatch.setattr(guesses, "FEW", 2)
    for module in (thresholds, groups):
        monkeypatch.setattr(module, "wanted", lambda k: k + 1)
