"""A Spark session for the command line: inside this process, unless another place is named."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from skyband.errors import InputError, optional

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
CONNECT_PORT = 15002
INSTALL_JAVA = (
    "install it with 'apt-get install openjdk-17-jre-headless' (Debian, Ubuntu) or 'brew install openjdk@17' (macOS)"
)
LEAST, MOST = 1 << 30, 8 << 30  # bytes for the JVM
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.sql.streaming.numRecentProgressUpdates": "10",  # they are looked at after every batch
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # else files with nanoseconds, as pandas writes, cannot be read
}
"""What every session of ours has, wherever it runs."""
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
LOCAL = {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.maxResultSize": "0"}


@contextmanager
def session(master: str | None = None, remote: str | None = None) -> Iterator[SparkSession]:
    """Give a session with our settings, and stop it at the end if nobody had it before.

    It runs in this process, unless a `master` (``"spark://host:7077"``, ``"local[4]"``) or a Spark Connect server
    (`remote`, ``"sc://host:15002"``) is named.
    """
    _check_pyspark()
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):  # they print errors that are caught
        PySparkLogger.getLogger(name).disabled = True
    running = SparkSession.getActiveSession() if remote is None else None
    if running is not None:  # someone else's: it keeps its own settings, and is not stopped
        yield _with_settings(running.newSession())
        return
    made = _with_settings(_connect(remote) if remote is not None else local_session(master))
    try:
        yield made
    finally:
        made.stop()


def _with_settings(made: SparkSession) -> SparkSession:
    for name, value in SETTINGS.items():
        made.conf.set(name, value)
    return made


def _check_pyspark() -> None:
    with optional("the Spark engine", "spark"):
        import pyspark  # noqa: F401 - only to see whether it is there


def _connect(url: str) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    _knock(url)
    try:
        return SparkSession.builder.remote(url).getOrCreate()
    except ImportError as error:
        msg = f"Spark Connect needs more packages ({error}); install them: pip install 'pyspark[connect]'"
        raise InputError(msg) from None
    except PySparkException as error:
        msg = f"cannot use the Spark Connect server {url}: {str(error).splitlines()[0]}"
        raise InputError(msg) from None


def _knock(url: str) -> None:
    """Refuse a server that does not answer; Spark itself would try again for many minutes."""
    place = urlsplit(url)
    if place.scheme == "sc":
        try:
            socket.create_connection((place.hostname or "", place.port or CONNECT_PORT), timeout=10).close()
        except ValueError:
            msg = f"{url} has no port that there can be; write it as sc://host:{CONNECT_PORT}"
            raise InputError(msg) from None
        except OSError as error:
            msg = f"no Spark Connect server answers at {place.netloc}: {(error.strerror or str(error)).lower()}"
            raise InputError(msg) from None


def local_session(master: str | None = None) -> SparkSession:
    """Start Spark with this process as its driver: quiet, without a web page, with memory to suit the machine.

    The work is done on all cores of this machine, unless a `master` is named.
    """
    _check_pyspark()
    check_java()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    settings = QUIET | SETTINGS
    if master is None or master.startswith("local"):
        settings |= LOCAL | {"spark.driver.memory": _memory()}
    builder = SparkSession.builder.appName("skyband").master(master or "local[*]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryFile() as log:
        try:
            with _children_write_to(log):
                return builder.getOrCreate()
        except PySparkException as error:
            log.seek(0)
            said = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
            msg = f"Spark does not start: {said[-1] if said else str(error).splitlines()[0]}"
            raise InputError(msg) from None


def check_java() -> None:
    """Refuse to start where there is no Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    found = "there is none"
    if shutil.which(program):
        said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
        version = re.search(r'version "(\d+)', said)
        if version and int(version[1]) >= OLDEST_JAVA:
            return
        found = f"{program} is version {version[1]}" if version else f"{program} does not run"
    msg = f"Spark needs Java {OLDEST_JAVA} or newer, and {found}: {INSTALL_JAVA}"
    raise InputError(msg)


def _memory() -> str:
    """Return how much memory the JVM gets: a quarter of the machine's, within bounds."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(max(machine // 4, LEAST), MOST) >> 20}m"


@contextmanager
def _children_write_to(log: BinaryIO) -> Iterator[None]:
    """Let processes that are started inside write their errors to a file; this one goes on as before.

    The JVM greets with warnings that cannot be turned off, and they would run through the progress bar.
    """
    kept, before = os.dup(2), sys.stderr
    os.dup2(log.fileno(), 2)
    try:
        if before is sys.__stderr__ and before is not None:
            sys.stderr = os.fdopen(os.dup(kept), "w", encoding=before.encoding, errors=before.errors, buffering=1)
        yield
    finally:
        sys.stderr = before  # the other closes itself when nobody, such as a spinner, writes to it any more
        os.dup2(kept, 2)
        os.close(kept)
