"""Spark starts, or says in a sentence why it does not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from skyband.errors import InputError
from skyband.spark.session import check_java, local_session, session
from tests.cli.conftest import Invoke, events, save

INSTALL = "'apt-get install openjdk-17-jre-headless' (Debian, Ubuntu)"


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide every Java; return the folder where programs are looked for."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return programs


def pretend(program: Path, said: str) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write({said!r})\n")
    program.chmod(0o755)


@pytest.mark.usefixtures("no_java")
def test_java_is_missing() -> None:
    with pytest.raises(InputError, match="Spark needs Java 17 or newer, and there is none: install") as caught:
        check_java()
    assert INSTALL in str(caught.value)


def test_java_is_too_old(no_java: Path) -> None:
    pretend(no_java / "java", 'java version "1.8.0_412"\n')
    with pytest.raises(InputError, match="java is version 1:"):
        local_session()
    pretend(no_java / "java", 'openjdk version "17.0.15" 2025-04-15\n')
    check_java()


def test_java_home_comes_first(no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(no_java / "java", 'openjdk version "21"\n')
    pretend(tmp_path / "home" / "bin" / "java", 'openjdk version "11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(InputError, match=r"home/bin/java is version 11: install"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="there is none"):
        check_java()


def test_pyspark_is_missing(queries: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    save(events(), tmp_path / "in.parquet")
    given = ["--input", tmp_path / "in.parquet", "--output", tmp_path / "out.csv", "--engine", "spark"]
    for command in (["run", queries, *given], ["demo", "--engine", "spark"]):
        result = invoke(*command)
        assert result.exit_code == 2
        assert result.stderr.endswith(
            "the Spark engine needs the package 'pyspark', which is missing; install it: pip install 'skyband[spark]'\n"
        )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sc://localhost:1", "no Spark Connect server answers at localhost:1: "),
        ("sc://localhost:high", "sc://localhost:high has no port that there can be; write it as sc://host:15002"),
        ("elsewhere", "cannot use the Spark Connect server elsewhere: "),
    ],
)
def test_no_server_is_there(url: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc")
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "")  # PySpark sets it for good, and later sessions would follow it
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED")
    with pytest.raises(InputError, match=said), session(remote=url):
        pass


@pytest.mark.spark
def test_a_session_of_others_is_left_alone(spark: Any, queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    save(events(), tmp_path / "in.parquet")
    given = ["--input", tmp_path / "in.parquet", "--output", tmp_path / "out.csv", "--engine", "spark"]
    assert invoke("run", queries, *given).exit_code == 0
    assert spark.range(3).count() == 3
    assert spark.conf.get("spark.sql.session.timeZone") == zone
