"""Stored states: a snapshot of every kind in every format that was ever written, and the layout of the format of today.

``tests/golden/state/snapshots-<format>/`` and ``checkpoints-<format>/`` hold them. Whoever changes what a snapshot or a
checkpoint holds raises its number (``skyband.engine.snapshot.VERSION``, ``skyband.spark.checkpoint.FORMAT``) and runs
``python -m tests.golden.states``, which stores the new format beside the old ones. It overwrites nothing that is there:
``--again`` does, for a number that nobody else has seen yet.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import skyband as sb
from skyband.algorithms import ALGORITHMS
from skyband.engine import snapshot
from skyband.spark.checkpoint import FORMAT, Checkpoint, State

STORED = Path(__file__).parent / "state"
ROWS = [{"t": t, "id": f"i{t * 5 % 7}", "x": float(t * 7 % 11), "g": "ab"[t % 2], "n": t % 3} for t in range(40)]
HALF = 20
WINDOW = sb.Window(10, slide=5)


def _fans(ids: Any) -> dict[int | str, float]:
    return {one: float(str(one)[1:]) for one in ids}


SERVICES: dict[str, Any] = {"fans": _fans}


def _queries(kind: str) -> list[sb.Query]:
    match kind:
        case "rankings":
            return [
                sb.Query("top", k=2, score="x", window=WINDOW, select=("g", "n")),
                sb.Query("groups", k=1, score="x", window=WINDOW, partition_by="g", emit="changes"),
                sb.Query("people", k=2, score="x", window=WINDOW, distinct="best", where="n > 0"),
                sb.Query("latest", k=2, score="-x", window=WINDOW, distinct="latest", order="asc"),
                sb.Query("soon", k=1, score="x", window=sb.Window(15, slide=5), emit="early"),
            ]
        case "counts":
            return [sb.Query("top", k=2, score="x", window=sb.Window("6 events", slide="2 events"))]
        case "aggregates":
            return [
                sb.Query("sums", k=2, score="sum(x) - count(*)", window=WINDOW),
                sb.Query("by g", k=2, score="max(x)", group_by="g", window=WINDOW),
                sb.Query("whole numbers", k=2, score="sum(n)", window=WINDOW),
            ]
        case "keys":
            return [
                sb.Query("top", k=1, score="x", window=WINDOW, partition_by=("g", "n"), select=("x * 2 AS twice",)),
                sb.Query(
                    "by both", k=1, score="count(distinct id)", group_by=("g", "n"), window=WINDOW,
                    select=("approx_count_distinct(id) AS about", "x"), having="count(*) > 1",
                ),
                sb.Query("per g", k=1, score="sum(x)", window=WINDOW, partition_by=("g", "n % 2 AS odd"), emit="early"),
            ]  # fmt: skip
        case "windows":
            kinds = {
                "day": sb.Window.cumulative(20, step=5), "ever": sb.Window.all_time(every=5),
                "berlin": sb.Window.calendar("day", zone="Europe/Berlin"),
            }  # fmt: skip
            return [
                sb.Query(f"{name} of {score}", k=2, score=score, window=window)
                for name, window in kinds.items()
                for score in ("x", "sum(x)")
            ]
        case "joined":
            return [
                sb.Query("list", k=2, score="x + fans", window=WINDOW, join=sb.Join("fans", budget=2, n=3)),
                sb.Query("few", k=2, score="max(x)", where="fans > 2", window=WINDOW, join=sb.Join("fans", budget=2)),
                sb.Query("top", k=1, score="x", window=WINDOW),
            ]
    return [sb.Query("top", k=2, score="x", window=WINDOW)]


KINDS = ("rankings", "counts", "aggregates", "keys", "windows", "joined", "subscriptions")
ALGORITHM_KINDS = tuple(f"with {name}" for name in sorted(ALGORITHMS))


def begun(kind: str) -> sb.Monitor | sb.Subscriptions:
    """Return what has seen the first half of the rows."""
    if kind == "subscriptions":
        near = sb.Subscription("near", k=2, score=sb.Distance({"x": 3.0}), last=10, emit="changes")
        few = sb.Subscription("few", k=1, score=sb.WeightedSum({"x": 1.0}), last="5 events", where="n > 0")
        following = sb.Subscriptions([near, few], time="t", id="id", select=("g",))
        following.push(ROWS[:HALF])
        return following
    algorithm = kind.removeprefix("with ") if kind.startswith("with ") else "staircase"
    monitor = sb.Monitor(_queries(kind), algorithm=algorithm, time="t", id="id", services=SERVICES)
    monitor.push(ROWS[: HALF // 2])
    if kind == "rankings":
        monitor.register(sb.Query("new", k=3, score="x", window=WINDOW))
        monitor.pause("people")
    monitor.push(ROWS[HALF // 2 : HALF])
    if kind != "counts":
        monitor.advance(12)
    return monitor


def restored(kind: str, blob: bytes) -> sb.Monitor | sb.Subscriptions:
    """Return what a snapshot makes go on."""
    return sb.Subscriptions.restore(blob) if kind == "subscriptions" else sb.Monitor.restore(blob, services=SERVICES)


def rest(what: sb.Monitor | sb.Subscriptions) -> list[Any]:
    """Return everything that is said about the second half of the rows."""
    if isinstance(what, sb.Subscriptions):
        return [what.push(ROWS[HALF:]).table().to_pylist(), {name: what.top(name) for name in what.subscriptions}]
    parts = [what.push(ROWS[HALF:]), what.finish()]
    return [part.table(quality=True).to_pylist() for part in parts if len(part)]


def layout(blob: bytes) -> Any:
    """Return what a snapshot holds: names and types, without values."""
    meta, tables, groups = snapshot.decode(blob)
    return [_layout_of_state(*state) for state in [(meta, tables), *groups]]


def _layout_of_state(meta: dict[str, Any], tables: dict[str, pa.Table]) -> Any:
    columns = {name: {field.name: str(field.type) for field in table.schema} for name, table in tables.items()}
    return {"meta": _kinds(meta), "tables": columns}


def _kinds(value: Any) -> Any:
    """Return a value's names and types: of a list, those that occur in it."""
    if isinstance(value, dict):
        return {name: _kinds(held) for name, held in value.items()}
    if isinstance(value, list):
        found = [_kinds(held) for held in value]
        return [kind for place, kind in enumerate(found) if kind not in found[:place]]
    return type(value).__name__


def make_checkpoint(folder: Path) -> None:
    """Write a checkpoint as a stream does, without Spark."""
    checkpoint = Checkpoint(folder)
    identity = {
        "time": "t", "id": "id", "time_unit": None, "id_type": "string", "algorithm": "staircase",
        "placement": "driver",
    }  # fmt: skip
    schema = pa.table({name: [row[name] for row in ROWS] for name in ROWS[0]}).schema
    checkpoint.open(identity, schema, [query.as_dict() for query in _queries("rankings")], ["fans"])
    checkpoint.submit({"do": "pause", "name": "top"})
    checkpoint.plan(0)
    checkpoint.save(0, State(begun("rankings").snapshot(), 1, [query.as_dict() for query in _queries("rankings")]))
    checkpoint.show({"batch": 0}, pa.table({"query": ["top"]}))
    (folder / "offsets").mkdir()
    (folder / "offsets" / "0").write_text("v1\n")


def layout_of_checkpoint(folder: Path) -> dict[str, Any]:
    """Return what is in the files of a checkpoint: names and types, without the monitor's snapshot."""
    found: dict[str, Any] = {}
    for file in sorted(path for path in (folder / "skyband").rglob("*") if path.is_file()):
        content = file.read_bytes()
        name = str(file.relative_to(folder))
        if content.startswith(b"SKYBAND\n"):
            found[name] = layout(content)
        else:
            document = json.loads(content)
            found[name] = _kinds({**document, "queries": []} if "queries" in document else document)
    return found


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack a stored checkpoint."""
    with tarfile.open(archive) as held:
        held.extractall(folder, filter="data")
    return folder


def write_snapshots(folder: Path) -> None:
    """Store a snapshot of each kind, and what is in it."""
    layouts = {}
    for kind in (*KINDS, *ALGORITHM_KINDS):
        blob, file = begun(kind).snapshot(), folder / f"{kind}.gz"
        layouts[kind] = layout(blob)
        if not (file.exists() and _serves(kind, gzip.decompress(file.read_bytes()), layouts[kind])):
            file.write_bytes(gzip.compress(blob, mtime=0))
    _write_layouts(folder, layouts)


def _serves(kind: str, blob: bytes, wanted: Any) -> bool:
    """Tell whether a stored snapshot is as good as a new one: then it stays as it is."""
    return layout(blob) == wanted and rest(restored(kind, blob)) == rest(begun(kind))


def write_checkpoint(folder: Path) -> None:
    """Store a checkpoint, and what is in it."""
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as made:
        make_checkpoint(Path(made))
        with tarfile.open(fileobj=packed, mode="w") as held:
            held.add(made, ".", filter=_anonymous)
        _write_layouts(folder, layout_of_checkpoint(Path(made)))
    (folder / "driver.tar.gz").write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def _write_layouts(folder: Path, layouts: dict[str, Any]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(held)}" for name, held in layouts.items()]
    (folder / "layout.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


TODAY: dict[Path, Callable[[Path], None]] = {
    STORED / f"snapshots-{snapshot.VERSION}": write_snapshots,
    STORED / f"checkpoints-{FORMAT}": write_checkpoint,
}


def main() -> None:
    """Store states in the formats of today."""
    for folder, write in TODAY.items():
        if folder.exists() and "--again" not in sys.argv:
            print(f"{folder.name} is stored; who changed the format raises its number first")  # noqa: T201
            continue
        folder.mkdir(parents=True, exist_ok=True)
        write(folder)


if __name__ == "__main__":
    main()
