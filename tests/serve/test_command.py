"""`skyband serve` and `skyband demo --serve` as processes; what they refuse."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from skyband.cli.commands import app
from tests.cli.conftest import QUERIES, events, save
from tests.serve.conftest import TOKEN, answers, eventually


@contextmanager
def running(*arguments: object, token: str | None = TOKEN) -> Iterator[tuple[httpx2.Client, list[str]]]:
    """Run a command that serves; gives a client and what it has said. Ends it with Ctrl-C."""
    environment = {key: value for key, value in os.environ.items() if key != "SKYBAND_TOKEN"}
    environment |= {} if token is None else {"SKYBAND_TOKEN": token}
    command = [sys.executable, "-m", "skyband", *map(str, arguments), "--port", "0", "--engine", "local"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    said: list[str] = []
    try:
        while not said or "Ctrl-C" not in said[-1]:
            said.append(process.stderr.readline())
            assert said[-1], said
        address = next(re.search(r"http://\S+/", line) for line in said if "http" in line)
        assert address is not None
        token = token or next(line.split()[-1] for line in said if line.startswith("Token"))
        headers = {"authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=address[0], headers=headers, trust_env=False, timeout=120) as client:
            yield client, said
        process.send_signal(signal.SIGINT)
        said.append(process.communicate(timeout=60)[1])
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.wait()


def test_files_that_come_into_a_folder(tmp_path: Path) -> None:
    folder, table = tmp_path / "in", events()
    folder.mkdir()
    (tmp_path / "queries.toml").write_text(QUERIES)
    save(table.slice(0, 300), folder / "1.csv")
    with running("serve", tmp_path / "queries.toml", "--input", folder, "--watermark", "0 seconds") as (client, said):
        eventually(lambda: client.get("/healthz").status_code == 200)
        before = eventually(lambda: answers(client))[0]["end"]
        save(table.slice(300), folder / ".draft.csv")
        (folder / ".draft.csv").rename(folder / "2.csv")
        eventually(lambda: answers(client)[0]["end"] > before)
        assert client.get("/api/stream").json()["numbers"]["rows"] == 600
    assert not any(TOKEN in line for line in said), "a token that was given is not shown"
    assert said[-1].strip() == "stopped"


def test_the_demo_in_a_browser() -> None:
    with running("demo", "--serve", token=None) as (client, said):
        eventually(lambda: client.get("/healthz").status_code == 200)
        assert sum("shown only now" in line for line in said) == 1
        assert len(client.get("/api/queries").json()["queries"]) >= 5
        assert client.delete("/api/queries/biggest%20trades").status_code == 200


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve"], "there is nothing to serve; give --input FOLDER"),
        (["serve", "--checkpoint", "nowhere"], "is no checkpoint of a Skyband stream"),
        (["serve", "--input", "."], "the column of the time is not known"),
        (["serve", "--input", "no/folder", "--time", "t", "--id", "i", "--engine", "local"], "is no folder"),
        (["serve", "--checkpoint", "x", "--engine", "local"], "--checkpoint belongs to the Spark engine"),
    ],
)
def test_mistakes(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output


def test_a_token_or_port_that_will_not_do_is_refused_before_spark_starts(tmp_path: Path) -> None:
    arguments = ["serve", "--input", str(tmp_path), "--time", "t", "--id", "i", "--port"]
    result = CliRunner().invoke(app, [*arguments, "0"], env={"SKYBAND_TOKEN": "secret"})
    assert (result.exit_code, "at least 16 characters" in result.stderr) == (2, True), result.output
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = CliRunner().invoke(app, [*arguments, str(taken.getsockname()[1])])
    assert (result.exit_code, "choose another --port" in result.stderr) == (2, True), result.output


def test_without_the_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "uvicorn" or name == "skyband.serve.server"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(app, ["demo", "--serve", "--engine", "local"])
    assert result.exit_code == 2
    assert "pip install 'skyband[serve]'" in result.stderr
