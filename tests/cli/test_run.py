"""What `skyband run` writes equals what `sb.run` answers, whatever the formats."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.files.queries import load
from skyband.files.stream import read
from tests.cli.conftest import Invoke, events, save

COLUMNS = ["query", "window_start", "window_end", "rank", "id", "score", "time", "partition", "venue"]
INPUTS = (".parquet", ".csv", ".csv.gz", ".jsonl", ".ndjson", ".json", ".jsonl.gz")
OUTPUTS = (".parquet", ".csv", ".csv.gz", ".jsonl", ".json.gz")


def truth(queries: Path, table: pa.Table, **options: Any) -> list[dict[str, Any]]:
    answers = sb.run(load(queries).queries, table, time="ts", id="symbol", **options).table()
    return answers.select(COLUMNS).to_pylist()  # type: ignore[no-any-return]


def answers_in(path: Path) -> list[dict[str, Any]]:
    """Read answers back, times as times."""
    if path.name.endswith(".parquet"):
        return pq.read_table(path).to_pylist()  # type: ignore[no-any-return]
    stamp = pa.timestamp("us", "UTC")
    if ".csv" in path.name:
        options = pacsv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
        table = pacsv.read_csv(path, convert_options=options)
    else:
        opened = pa.input_stream(str(path), compression="gzip" if path.name.endswith(".gz") else None)
        table = pa.Table.from_pylist([json.loads(line) for line in opened.read().splitlines()])
    for name in ("window_start", "window_end", "time"):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].cast(stamp))
    return table.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("suffix", INPUTS)
def test_every_input_format_gives_the_same_answers(suffix: str, queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    table = events()
    save(table, tmp_path / f"in{suffix}")
    result = invoke("run", queries, "--input", tmp_path / f"in{suffix}", "--output", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    assert answers_in(tmp_path / "out.parquet") == truth(queries, table)


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_every_output_format_holds_the_same_answers(suffix: str, queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    table = events()
    save(table, tmp_path / "in.parquet")
    result = invoke("run", queries, "--input", tmp_path / "in.parquet", "--output", tmp_path / f"out{suffix}")
    assert result.exit_code == 0, result.output
    assert answers_in(tmp_path / f"out{suffix}") == truth(queries, table)


def test_a_folder_is_read_by_name_and_hidden_files_are_left_out(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    table = events()
    folder = tmp_path / "in"
    (folder / "b").mkdir(parents=True)
    save(table.slice(0, 200), folder / "a.parquet")
    save(table.slice(200, 200), folder / "b" / "x.csv")
    save(table.slice(400), folder / "c.jsonl.gz")
    for name in (".hidden.parquet", "_SUCCESS", "_half.parquet", "readme.txt"):
        (folder / name).write_text("no data")
    (folder / "empty.jsonl").touch()
    assert [path.name for path in read(folder).files] == ["a.parquet", "x.csv", "c.jsonl.gz"]
    output = tmp_path / "out.parquet"
    result = invoke("run", queries, "--input", folder, "--output", output, "--watermark", "30 seconds")
    assert result.exit_code == 0, result.output
    assert answers_in(output) == truth(queries, table, watermark="30 seconds")


def test_several_inputs_are_read_one_after_the_other(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    table = events()
    save(table.slice(0, 300), tmp_path / "b.parquet")
    save(table.slice(300), tmp_path / "a.parquet")
    given = ["--input", tmp_path / "b.parquet", "--input", tmp_path / "a.parquet", "--watermark", "0 seconds"]
    result = invoke("run", queries, *given, "--output", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    assert answers_in(tmp_path / "out.parquet") == truth(queries, table, watermark="0 seconds")


def test_only_the_columns_that_queries_use_are_read(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    table = events()
    save(table, tmp_path / "1.parquet")
    save(table.drop_columns(["note"]), tmp_path / "2.parquet")  # the unused column may be missing
    result = invoke("run", queries, "--input", tmp_path, "--output", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    assert read(tmp_path / "1.parquet", ["PRICE", "ts"]).schema.names == ["price", "ts"]


def test_options_win_over_the_file(tmp_path: Path, invoke: Invoke) -> None:
    file = tmp_path / "q.toml"
    file.write_text(
        'time = "no"\nid = "no"\ntime_unit = "ns"\n[[query]]\nname = "a"\nk = 1\nsize = "1 minute"\nscore = "x"\n'
    )
    pq.write_table(pa.table({"t": [0, 61], "name": ["a", "b"], "x": [1.0, 2.0]}), tmp_path / "in.parquet")
    result = invoke(
        "run", file, "--input", tmp_path / "in.parquet", "--time", "t", "--id", "name", "--time-unit", "s",
        "--output", "-",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["window_end"] for row in rows] == ["1970-01-01T00:01:00.000000Z", "1970-01-01T00:02:00.000000Z"]


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_a_run_without_answers_writes_the_columns(suffix: str, queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    table = events()
    nothing = table.set_column(2, "price", pa.nulls(len(table), pa.float64()))
    save(nothing, tmp_path / "in.parquet")
    result = invoke("run", queries, "--input", tmp_path / "in.parquet", "--output", tmp_path / f"out{suffix}")
    assert result.exit_code == 0, result.output
    if suffix == ".parquet":
        assert pq.read_schema(tmp_path / "out.parquet").names == COLUMNS
        assert pq.read_table(tmp_path / "out.parquet").num_rows == 0
    elif suffix == ".csv":
        assert (tmp_path / "out.csv").read_text() == ",".join(f'"{name}"' for name in COLUMNS) + "\n"


def test_infinite_scores_are_texts_in_json(tmp_path: Path, queries: Path, invoke: Invoke) -> None:
    table = events(3)
    table = table.set_column(2, "price", pa.array([np.inf, -np.inf, 5.0])).set_column(3, "volume", pa.array([9, 9, 9]))
    save(table, tmp_path / "in.parquet")
    result = invoke("run", queries, "--input", tmp_path / "in.parquet", "--output", "-", "--quiet")
    assert result.exit_code == 0, result.output
    scores = {json.loads(line)["score"] for line in result.stdout.splitlines()}
    assert scores == {"Infinity", "-Infinity", 45.0, 5.0}


def test_late_and_rejected_rows_are_kept(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    table = events(400)
    prices = table["price"].to_pylist()
    prices[7] = None
    table = table.set_column(2, "price", pa.array(prices)).set_column(3, "volume", pa.array([9] * 400))
    save(table, tmp_path / "1.parquet")
    save(table.slice(0, 2), tmp_path / "2.parquet")
    late, rejected = tmp_path / "late.jsonl", tmp_path / "rejected.csv"
    options = ["--late", late, "--rejected", rejected, "--watermark", "1 second"]
    result = invoke("run", queries, "--input", tmp_path, *options, "--output", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["price"] for line in late.read_text().splitlines()] == prices[:2]
    assert len(rejected.read_text().splitlines()) == 2
    assert "2 missed all their windows" in result.stderr
    assert "1 without score, time or id" in result.stderr


def test_rows_from_the_future_are_rejected_where_one_says_so(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    table = events(400)
    far = [datetime(2999, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(days=2)]
    late = table.slice(0, 2).set_column(0, "ts", pa.array(far, table["ts"].type))
    save(pa.concat_tables([late, table]), tmp_path / "in.parquet")
    options = ["--watermark", "1 second", "--rejected", tmp_path / "rejected.csv", "--max-ahead", "1 day"]
    result = invoke("run", queries, "--input", tmp_path / "in.parquet", *options, "--output", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    assert answers_in(tmp_path / "out.parquet") == truth(queries, table, watermark="1 second")
    assert "2 without score, time or id, 2 ahead of the clock" in result.stderr
    assert len((tmp_path / "rejected.csv").read_text().splitlines()) == 3


def test_emitted_changes_and_early_answers_have_their_columns(tmp_path: Path, invoke: Invoke) -> None:
    file = tmp_path / "q.toml"
    for emit, columns in (("changes", {"change", "previous_rank"}), ("early", {"provisional"})):
        file.write_text(f'[[query]]\nname = "a"\nk = 2\nsize = "1 minute"\nscore = "price"\nemit = "{emit}"\n')
        save(events(), tmp_path / "in.parquet")
        options = ["--input", tmp_path / "in.parquet", "--time", "ts", "--id", "symbol", "--watermark", "1 second"]
        result = invoke("run", file, *options, "--output", tmp_path / "out.parquet", "--overwrite")
        assert result.exit_code == 0, result.output
        assert set(pq.read_schema(tmp_path / "out.parquet").names) - set(COLUMNS) == columns
        assert pq.read_table(tmp_path / "out.parquet").num_rows


def test_count_windows_have_numbers_for_ends(tmp_path: Path, invoke: Invoke) -> None:
    file = tmp_path / "q.toml"
    file.write_text('[[query]]\nname = "a"\nk = 2\nsize = "100 events"\nslide = "50 events"\nscore = "price"\n')
    save(events(), tmp_path / "in.parquet")
    options = ["--input", tmp_path / "in.parquet", "--time", "ts", "--id", "symbol"]
    result = invoke("run", file, *options, "--output", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    assert pq.read_table(tmp_path / "out.parquet")["window_end"].to_pylist()[-1] == 600


def test_quiet_shows_nothing_and_pipes_get_no_bar(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    save(events(), tmp_path / "in.parquet")
    given = ["run", queries, "--input", tmp_path / "in.parquet", "--output", tmp_path / "out.csv", "--overwrite"]
    assert invoke(*given, "--quiet").output == ""
    shown = invoke(*given).stderr
    assert "600 in" in shown
    assert "\x1b" not in shown
    assert "━" not in shown


def test_zones_may_differ_since_they_are_instants(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    table = events()
    elsewhere = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "Asia/Tokyo")))
    save(table.slice(0, 300), tmp_path / "1.parquet")
    save(elsewhere.slice(300), tmp_path / "2.parquet")
    result = invoke("run", queries, "--input", tmp_path, "--output", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    assert answers_in(tmp_path / "out.parquet") == truth(queries, table)
