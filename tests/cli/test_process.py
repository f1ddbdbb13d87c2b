"""What only a process of its own can show: signals, memory, terminals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import events, save

QUERY = 'time = "t"\nid = "id"\n[[query]]\nname = "top"\nk = 10\nsize = "1 minute"\nslide = "1 second"\nscore = "x"\n'


def write_rows(path: Path, rows: int, begin: int = 0, row_group: int = 100_000) -> None:
    rng = np.random.default_rng(begin)
    table = pa.table(
        {"t": np.arange(begin, begin + rows) * 1000, "id": rng.integers(0, 1000, rows), "x": rng.random(rows)}
    )
    pq.write_table(table, path, row_group_size=row_group)


def skyband(*arguments: object, engine: str = "local") -> list[str]:
    return [sys.executable, "-m", "skyband", *map(str, arguments), "--engine", engine]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(sent: signal.Signals, tmp_path: Path) -> None:
    """The slowest algorithm over wide windows takes far longer than the signal needs."""
    (tmp_path / "q.toml").write_text(QUERY.replace("1 minute", "10 minutes"))
    (tmp_path / "answers").mkdir()
    write_rows(tmp_path / "1.parquet", 2_000_000)
    options = ["--input", tmp_path / "1.parquet", "--output", tmp_path / "answers" / "out.csv", "--algorithm", "naive"]
    process = subprocess.Popen(skyband("run", tmp_path / "q.toml", *options), stderr=subprocess.PIPE, text=True)
    try:
        waited = time.monotonic() + 60
        while not list((tmp_path / "answers").iterdir()) and process.poll() is None and time.monotonic() < waited:
            time.sleep(0.05)
        assert [path.suffix for path in (tmp_path / "answers").iterdir()] == [".part"]
        time.sleep(0.5)
        process.send_signal(sent)
        _, said = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == (130 if sent == signal.SIGINT else 143)
    assert said.endswith("interrupted; nothing was written\n")
    assert "Traceback" not in said
    assert list((tmp_path / "answers").iterdir()) == []


LOST = """
import os, signal, time
import typer
from skyband.cli import commands as cli

class Deaf:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)  # here the signal is dealt with, and what it raises is lost

@cli.exit_codes()
def command():
    cli.listen()
    Deaf()
    print("goes on", flush=True)
    try:
        time.sleep(60)
    finally:
        time.sleep(1.5)  # longer than until the next repetition
        print("cleaned up", flush=True)

try:
    command()
except typer.Exit as end:
    time.sleep(1.5)
    raise SystemExit(end.exit_code)
"""


def test_an_interrupt_that_gets_lost_is_repeated_but_not_while_it_is_dealt_with() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 143, done.stderr
    assert done.stdout == "goes on\ncleaned up\n"
    assert done.stderr.endswith("interrupted; nothing was written\n")


def peak_memory(tmp_path: Path, files: int, rows: int) -> int:
    """Run over some files and return the most memory that the process had, in bytes."""
    folder = tmp_path / f"in{files}"
    folder.mkdir()
    for number in range(files):
        write_rows(folder / f"{number:02}.parquet", rows, number * rows)
    arguments = skyband(
        "run", tmp_path / "q.toml", "--input", folder, "--output", tmp_path / f"{files}.parquet",
        "--watermark", "1 second",
    )  # fmt: skip
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def test_memory_does_not_grow_with_the_number_of_events(tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text(QUERY)
    few, many = peak_memory(tmp_path, 4, 250_000), peak_memory(tmp_path, 24, 250_000)
    whole = 24 * 250_000 * 24
    assert many - few < whole / 3, f"{few:,} bytes for 1 M rows, {many:,} for 6 M"


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_terminal_gets_a_progress_bar(engine: str, tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text(QUERY)
    write_rows(tmp_path / "1.parquet", 200_000, row_group=10_000)
    ours, theirs = pty.openpty()
    options = ["--input", tmp_path / "1.parquet", "--output", tmp_path / "out.csv"]
    arguments = skyband("run", tmp_path / "q.toml", *options, engine=engine)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(arguments, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # Linux ends a terminal so
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(60) == 0
    assert b"200.0k rows" in shown
    assert b"100%" in shown
    assert "━".encode() in shown
    assert (b"starting Spark" in shown) == (engine == "spark")
    assert b"WARN" not in shown  # the JVM's greetings


def test_standard_output_can_be_piped(tmp_path: Path) -> None:
    save(events(), tmp_path / "in.parquet")
    (tmp_path / "q.toml").write_text(QUERY.replace('"t"', '"ts"').replace('"id"', '"symbol"').replace('"x"', '"price"'))
    arguments = skyband("run", tmp_path / "q.toml", "--input", tmp_path / "in.parquet", "--output", "-")
    done = subprocess.run(arguments, capture_output=True, timeout=60, check=True)
    assert done.stdout.startswith(b'{"query": "top", "window_start": "2026-03-02T09:')
    assert b"rows" in done.stderr
