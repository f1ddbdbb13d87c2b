from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if shutil.which("java") is None:
        pytest.skip("Java is missing, which Spark needs")
    sql = pytest.importorskip("pyspark.sql")
    found = sql.SparkSession.getActiveSession()
    builder = sql.SparkSession.builder.master("local[2]").appName("skyband-expressions")
    base = found or builder.config("spark.ui.enabled", "false").getOrCreate()
    base.sparkContext.setLogLevel("OFF")
    session = base.newSession()  # own settings: they must not reach other tests that share the context
    session.conf.set("spark.sql.shuffle.partitions", "1")
    # Far from UTC and with summer time: a text that depends on the zone would show.
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield session
    if found is None:
        base.stop()
