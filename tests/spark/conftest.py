from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

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
