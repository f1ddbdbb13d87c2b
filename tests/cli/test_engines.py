"""Spark and the local engine write the same files, byte for byte."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Invoke, events, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
Both = Callable[..., str]
SIDES = ("out.csv", "late.jsonl", "rejected.jsonl")
MANY = """
time = "ts"
id = "symbol"

[[query]]
name = "top"
k = 3
size = "1 minute"
slide = "20 seconds"
score = "price * Volume"
where = "volume > 2"
select = ["venue", "price"]

[[query]]
name = "by venue"
k = 2
size = "30 seconds"
score = "price"
partition_by = "venue"
distinct = "best"

[[query]]
name = "lately"
k = 3
size = "40 seconds"
slide = "10 seconds"
score = "-price"
distinct = "latest"
order = "asc"
emit = "changes"
"""


def nasty(rows: int = 1200, text: bool = True) -> pa.Table:
    """Make trades of which some are out of order, some late and some incomplete."""
    rng = np.random.default_rng(11)
    table = events(rows, seed=5)
    ts = table["ts"].cast(pa.int64()).to_numpy() - (rng.random(rows) < 0.1) * rng.integers(0, 4_000_000, rows)
    ts = ts - (rng.random(rows) < 0.02) * 150_000_000
    ids = table["symbol"] if text else pc.utf8_slice_codeunits(table["symbol"], 1).cast(pa.int64())
    return pa.table(
        {
            **dict(zip(table.column_names, table.columns, strict=True)),
            "ts": pa.array(ts, mask=rng.random(rows) < 0.01).cast(pa.timestamp("us", "UTC")),
            "symbol": pc.if_else(pa.array(rng.random(rows) < 0.01), None, ids),
            "price": pa.array(table["price"].to_numpy(), mask=rng.random(rows) < 0.02),
        }
    )


def save_parts(table: pa.Table, folder: Path, suffix: str, parts: int = 4) -> None:
    """Write a table into several files, the last of which was changed first."""
    folder.mkdir(exist_ok=True)
    size = -(-len(table) // parts)
    for number in range(parts):
        path = folder / f"{number}{suffix}"
        part = table.slice(number * size, size)
        if "json" in suffix:
            rows = [{**row, "ts": row["ts"] and row["ts"].isoformat()} for row in part.to_pylist()]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            save(part, path)
        os.utime(path, (1e9 - number, 1e9 - number))


def numbers(said: list[str]) -> list[str]:
    """Return what a summary counts, but not what depends on the engine: memory, time, and where it went."""
    lines = [line for line in said if line.split()[0] not in ("kept", "output") and not line.startswith(" ")]
    return [line.split(" in ")[0] for line in lines]


@pytest.fixture
def both(tmp_path: Path, invoke: Invoke) -> Both:
    """Run something on both engines, compare all files, and return what is in the first."""

    def run(queries: str, *arguments: object, sides: bool = True) -> str:
        file = tmp_path / "both.toml"
        file.write_text(queries)
        said = {}
        for engine in ("local", "spark"):
            folder = tmp_path / engine
            folder.mkdir(exist_ok=True)
            options = ["--late", folder / SIDES[1], "--rejected", folder / SIDES[2]] if sides else []
            result = invoke(
                "run", file, *arguments, "--engine", engine, "--output", folder / SIDES[0], *options, "--overwrite"
            )
            assert result.exit_code == 0, result.output
            said[engine] = result.stderr.splitlines()
        wanted = {path.name: path.read_text() for path in (tmp_path / "local").iterdir()}
        assert wanted == {path.name: path.read_text() for path in (tmp_path / "spark").iterdir()}
        assert numbers(said["local"]) == numbers(said["spark"])
        return wanted["out.csv"]

    return run


@pytest.mark.parametrize(
    ("suffix", "text"), [(".parquet", True), (".parquet", False), (".csv", True), (".jsonl", False)]
)
def test_late_and_incomplete_rows(suffix: str, text: bool, both: Both, tmp_path: Path) -> None:
    save_parts(nasty(text=text), tmp_path / "in", suffix)
    answers = both(MANY, "--input", tmp_path / "in", "--watermark", "2 seconds")
    assert '"entered"' in answers
    assert (tmp_path / "spark" / "late.jsonl").read_text().count("\n") > 5
    assert (tmp_path / "spark" / "rejected.jsonl").read_text().count("\n") > 20


def test_without_a_watermark_the_order_does_not_matter(both: Both, tmp_path: Path) -> None:
    table = nasty()
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(len(table))))
    save_parts(shuffled, tmp_path / "in", ".parquet")
    assert both(MANY, "--input", tmp_path / "in", sides=False).count("\n") > 100


def test_count_windows_follow_the_order_of_the_files(both: Both, tmp_path: Path) -> None:
    """Within a file, Spark takes rows in the order of their times, as they are here."""
    query = '[[query]]\nname = "a"\nk = 2\nsize = "100 events"\nslide = "30 events"\nscore = "price"\n'
    table = events(1200)
    times = pa.array(np.arange(1200) * 250_000).cast(table.schema.field("ts").type)
    table = table.set_column(0, "ts", times)
    save_parts(table.slice(600), tmp_path / "z", ".csv", 2)
    save_parts(table.slice(0, 600), tmp_path / "a", ".csv", 3)
    both(query, "--input", tmp_path / "z", "--input", tmp_path / "a", "--time", "ts", "--id", "symbol")


def test_early_answers(both: Both, tmp_path: Path) -> None:
    query = '[[query]]\nname = "a"\nk = 2\nsize = "1 minute"\nscore = "price"\nemit = "early"\n'
    save_parts(events(), tmp_path / "in", ".parquet")
    options = ["--time", "ts", "--id", "symbol", "--watermark", "5 seconds"]
    assert ",true\n" in both(query, "--input", tmp_path / "in", *options)


TYPES = """
time = "t"
id = "id"

[[query]]
name = "a"
k = 5
size = "1 minute"
score = "amount + u8 + f32"
where = "flag and seen >= t"
select = ["seen", "local", "amount", "tags", "place", "u64", "u32", "small", "raw", "day", "coded", "lasted"]
"""


@pytest.mark.parametrize(("unit", "zone"), [("ms", None), ("us", "UTC"), ("ns", None)])
def test_types_of_parquet(unit: str, zone: str | None, both: Both, tmp_path: Path) -> None:
    rows = 200
    rng = np.random.default_rng(2)
    start = int(datetime(2024, 5, 1).timestamp()) * 1000
    millis = pa.array(start + np.sort(rng.integers(0, 300_000, rows))).cast(pa.timestamp("ms"))
    table = pa.table(
        {
            "t": millis.cast(pa.timestamp(unit, zone)),
            "id": pa.array(rng.integers(0, 50, rows), pa.uint16()),
            "amount": pa.array(rng.integers(0, 10_000, rows), pa.int32()).cast(pa.decimal128(12, 2)),
            "u8": pa.array(rng.integers(0, 250, rows), pa.uint8()),
            "u32": pa.array(rng.integers(0, 2**32, rows), pa.uint32()),
            "u64": pa.array(rng.integers(0, 2**64, rows, np.uint64)),
            "f32": pa.array(rng.random(rows), pa.float32()),
            "small": pa.array(rng.integers(-9, 9, rows), pa.int8()),
            "flag": pa.array(rng.random(rows) < 0.9),
            "seen": millis.cast(pa.timestamp("ns", zone)),
            "local": millis.cast(pa.timestamp("us")),
            "day": millis.cast(pa.date32()),
            "tags": pa.array([["a", None], [], None, ["b"]] * (rows // 4)),
            "place": pa.array([{"x": 1, "y": "é"}, None] * (rows // 2)),
            "raw": pa.array([b"\x00\xff", None] * (rows // 2)),
            "coded": pa.array(["x", "y"] * (rows // 2)).dictionary_encode(),
            "lasted": pa.array(rng.integers(0, 9, rows)).cast(pa.duration("s")),
            "unused": pa.array(np.arange(rows) % 7).cast(pa.int32()).cast(pa.time32("s")),
        }
    )
    save_parts(table, tmp_path / "in", ".parquet", 2)
    assert both(TYPES, "--input", tmp_path / "in", "--watermark", "0 seconds").count("\n") > 20


def test_a_type_that_spark_cannot_read(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "q.toml").write_text(
        'time = "t"\nid = "t"\n[[query]]\nname = "a"\nk = 1\nsize = "1 s"\nscore = "t"\nselect = ["clock"]\n'
    )
    table = pa.table({"t": [1], "clock": pa.array([1], pa.time32("s"))})
    pq.write_table(table, tmp_path / "in.parquet")
    message = refused(tmp_path / "q.toml", "--input", tmp_path / "in.parquet", "--engine", "spark")
    assert message == (
        "column 'clock' is time32[ms], which Spark cannot read; leave it out of the queries, or add --engine local"
    )


def test_odd_but_good_csv(both: Both, tmp_path: Path) -> None:
    query = (
        'time = "when"\nid = "id"\n[[query]]\nname = "a"\nk = 9\nsize = "1 hour"\nscore = "x"\n'
        'select = ["note", "at", "yes", "i"]\n'
    )
    (tmp_path / "in.csv").write_text(
        "\ufeffwhen,id,x,i,note,at,yes,I,twice,twice\r\n"
        '2024-05-01T09:10Z,1,1.5,7,"a ""quoted"", one",2024-05-01,true,,,\r\n'
        "\r\n"
        '2024-05-01 09:11:00+02:00,2, 2.5 ,,"",2024-05-02,false,x,,\r\n'
        "2024-05-01T09:12:00.123456Z,3,NA,3,back\\slash,,true,x,,\r\n"
        "2024-05-01T09:13:00-0330,4,-inf,4, spaced ,2024-05-03,,x,,\r\n"
        "NULL,5,1e3,5,NA,2024-05-03,,x,,\r\n"
        "2024-05-01T09:14:00+01,6,nan,6,é,2024-05-03,true,x,,\r\n",
        newline="",
    )
    assert both(query, "--input", tmp_path / "in.csv").count("\n") == 4


def test_odd_but_good_json(both: Both, tmp_path: Path) -> None:
    query = (
        'time = "t"\nid = "id"\n[[query]]\nname = "a"\nk = 9\nsize = "1 hour"\nscore = "x"\n'
        'select = ["note", "at", "deep", "yes"]\n'
    )
    (tmp_path / "in.jsonl").write_text(
        '{"t": "2024-05-01T09:10:00", "id": "a", "x": 1.5, "note": "", "at": "2024-05-01", '
        '"deep": {"a": [1, 2]}, "yes": true}\n'
        "\n"
        '{"id": "b", "x": 2, "t": "2024-05-01 09:11", "note": null, "deep": {"a": []}, "more": 1}\n'
        '{"x": null, "t": "2024-05-01", "id": "c", "deep": null, "yes": null}\n'
    )
    both(query, "--input", tmp_path / "in.jsonl")


def test_a_file_that_is_named_twice_is_read_twice(both: Both, tmp_path: Path) -> None:
    save(events(100), tmp_path / "a.parquet")
    twice = ["--input", tmp_path / "a.parquet", "--input", tmp_path / "a.parquet"]
    assert '"lately"' in both(MANY, *twice)


def test_files_without_rows(both: Both, tmp_path: Path) -> None:
    for number in range(2):
        save(events(9).slice(0, 0), tmp_path / f"{number}.parquet")
    given = ["--input", tmp_path / "0.parquet", "--input", tmp_path / "1.parquet"]
    assert both(MANY, *given, "--watermark", "1 second").count("\n") == 1


def test_whole_numbers_for_times(both: Both, tmp_path: Path) -> None:
    query = '[[query]]\nname = "a"\nk = 2\nsize = "1 minute"\nscore = "x"\n'
    table = pa.table({"t": pa.array(range(300), pa.uint64()), "id": list("abc") * 100, "x": np.arange(300) % 7 / 2})
    pq.write_table(table, tmp_path / "in.parquet")
    both(query, "--input", tmp_path / "in.parquet", "--time", "t", "--id", "id", "--time-unit", "s")


# Mistakes: what Spark stumbles over is said in the same words.


def test_files_of_several_formats(queries: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    save(events(), tmp_path / "1.parquet")
    save(events(), tmp_path / "2.csv")
    message = refused(queries, "--input", tmp_path / "1.parquet", "--input", tmp_path / "2.csv", "--engine", "spark")
    assert "1.parquet and" in message
    assert message.endswith(
        "2.csv have different formats, and Spark reads one at a time; run them apart, or add --engine local"
    )


def test_csv_columns_in_another_order(queries: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    save(events(), folder / "1.csv")
    save(events().select(["symbol", "ts", "price", "volume", "venue", "note"]), folder / "2.csv")
    message = refused(queries, "--input", folder, "--engine", "spark")
    assert "2.csv has the columns symbol, ts, price, volume, venue, note, and the first file has ts, symbol," in message


def broken(table: pa.Table, suffix: str, path: Path) -> None:
    """Write a file that only reading it shows to be wrong."""
    if suffix == ".parquet":
        save(table, path)
        content = bytearray(path.read_bytes())
        content[4:3000] = b"\xff" * 2996
        path.write_bytes(content)
    elif suffix == "zone.csv":
        save(table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us"))), path)
    elif suffix == "line.csv":
        save(table, path)
        path.write_text(path.read_text() + "1,2\n")
    elif suffix == "line.jsonl":
        save(table, path)
        path.write_text(path.read_text() + '{"ts": "2026-03-02T09:3\n')
    else:
        save(table.set_column(2, "price", pa.array(["cheap"] * len(table))), path)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", "zone.csv", "line.csv", "line.jsonl"])
def test_a_file_that_turns_out_to_be_wrong(
    suffix: str, queries: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    save(events(), folder / f"1.{suffix.rpartition('.')[2]}")
    broken(events(), suffix, folder / f"2{suffix}")
    wanted = refused(queries, "--input", folder, "--engine", "local")
    assert f"2{suffix}" in wanted
    assert refused(queries, "--input", folder, "--engine", "spark") == wanted


def test_an_impossible_time(queries: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    far = pa.array([datetime(1, 1, 1), datetime(9999, 1, 1)], pa.timestamp("us"))
    save(events(2).set_column(0, "ts", far), tmp_path / "in.parquet")
    given = [queries, "--input", tmp_path / "in.parquet", "--engine", "spark"]
    for options in ([], ["--watermark", "1 second"]):
        assert "check the unit of the time column" in refused(*given, *options)
