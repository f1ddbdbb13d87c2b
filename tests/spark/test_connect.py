"""Spark Connect: nothing but public APIs, so the same code gives the same answers there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.spark


def test_a_connected_session_gives_the_same_answers(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("Java is missing, which Spark needs")
    pytest.importorskip("grpc", reason="Spark Connect's packages are missing: pip install 'pyspark[connect]'")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.spark.connect", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.endswith("the same\n")
