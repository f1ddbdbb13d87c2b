from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.spark.kafka import connector_jars

# JVMs of tests live too short for the second compiler, which would take nearly half of their time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


def pytest_report_header() -> str:
    names = (jar.stem for jar in connector_jars() if jar.name.startswith("spark-"))
    return f"kafka: {', '.join(names) or 'no jars'}"  # the connector may be older than Spark, which a reader must know


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session; its time zone is far from UTC and has summer time, so that nothing may depend on it."""
    if shutil.which("java") is None:
        pytest.skip("Java is missing, which Spark needs")
    sql = pytest.importorskip("pyspark.sql")
    builder = sql.SparkSession.builder.master("local[2]").appName("skyband-tests").config("spark.ui.enabled", "false")
    jars = ",".join(map(str, connector_jars()))
    base = builder.config("spark.jars", jars).getOrCreate()
    base.sparkContext.setLogLevel("OFF")
    base.sparkContext.pythonExec = sys.executable  # executors have the package that is tested
    session = base.newSession()  # own settings: they must not reach other sessions that share the context
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield session
    base.stop()
