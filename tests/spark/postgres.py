"""A PostgreSQL server of one's own, for tests: in a temporary folder, on a loopback port, gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PASSWORD = "pass/word:100%"
QUOTED = "pass%2Fword%3A100%25"


def binaries() -> Path | None:
    """Return where the server's programs are, of the newest version that is installed."""
    on_path = shutil.which("initdb")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
    return Path(on_path).resolve().parent if on_path else found[-1].parent if found else None


@contextmanager
def server() -> Iterator[str]:
    """Run a server; gives the URL of its database, password and all."""
    programs = binaries()
    assert programs is not None
    other: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}  # root may not
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        home, secret = Path(folder, "data"), Path(folder, "secret")
        secret.write_text(PASSWORD + "\n")
        if other:
            shutil.chown(folder, **other)
            shutil.chown(secret, **other)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()

        def run(program: str, *arguments: str) -> None:
            command = [str(programs / program), "-D", str(home), *arguments]
            with Path(folder, "log").open("w") as log:  # not a pipe: the server would hold its end open
                done = subprocess.run(command, cwd=folder, stdout=log, stderr=log, timeout=120, **other)
            assert done.returncode == 0, Path(folder, "log").read_text()

        run("initdb", "-U", "tester", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--no-locale", "-N")
        settings = f"-p {port} -h 127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        run("pg_ctl", "start", "-w", "-o", settings, "-l", str(Path(folder, "server.log")))
        try:
            yield f"postgresql+psycopg://tester:{QUOTED}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate")
