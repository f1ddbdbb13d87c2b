"""Every mistake is one clear sentence, exit code 2, and leaves nothing behind."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Invoke, events, save

Refused = Callable[..., str]


# Inputs.


def test_a_path_that_is_not_there(queries: Path, tmp_path: Path, refused: Refused) -> None:
    assert refused(queries, "--input", tmp_path / "no") == f"there is no file or folder {tmp_path / 'no'}"


def test_an_empty_folder(queries: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "in").mkdir()
    assert "holds no file to read; known suffixes are .parquet" in refused(queries, "--input", tmp_path / "in")


def test_a_pipe(queries: Path, tmp_path: Path, refused: Refused) -> None:
    os.mkfifo(tmp_path / "in.csv")
    assert "is neither a file nor a folder" in refused(queries, "--input", tmp_path / "in.csv")


def test_an_unknown_suffix(queries: Path, refused: Refused) -> None:
    assert "has no suffix that says how to read it" in refused(queries, "--input", queries)


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_an_empty_file(name: str, queries: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / name).touch()
    assert refused(queries, "--input", tmp_path / name) == f"there is nothing to read: {tmp_path / name} is empty"


def test_a_truncated_parquet_file(queries: Path, tmp_path: Path, refused: Refused) -> None:
    save(events(), tmp_path / "1.parquet")
    save(events(), tmp_path / "2.parquet")
    content = (tmp_path / "2.parquet").read_bytes()
    (tmp_path / "2.parquet").write_bytes(content[: len(content) // 2])
    message = refused(queries, "--input", tmp_path)
    assert message == f"cannot read {tmp_path / '2.parquet'}: it is no Parquet file, or its end is missing"


def test_a_parquet_file_that_is_damaged_inside(queries: Path, tmp_path: Path, refused: Refused) -> None:
    save(events(), tmp_path / "1.parquet")
    content = bytearray((tmp_path / "1.parquet").read_bytes())
    content[4:3000] = b"\xff" * 2996
    (tmp_path / "1.parquet").write_bytes(content)
    assert f"cannot read {tmp_path / '1.parquet'}: " in refused(queries, "--input", tmp_path)


def test_a_file_that_lacks_a_column(queries: Path, tmp_path: Path, refused: Refused) -> None:
    for suffix in (".parquet", ".csv", ".jsonl"):
        folder = tmp_path / suffix[1:]
        folder.mkdir()
        save(events(), folder / f"1{suffix}")
        save(events().drop_columns(["price"]), folder / f"2{suffix}")
        message = refused(queries, "--input", folder)
        assert f"2{suffix} has no column 'price', which the files before it have; it has ts, symbol," in message


def test_a_column_of_another_type(queries: Path, tmp_path: Path, refused: Refused) -> None:
    table = events()
    save(table, tmp_path / "1.parquet")
    save(table.set_column(2, "price", table["price"].cast(pa.string())), tmp_path / "2.parquet")
    message = refused(queries, "--input", tmp_path)
    assert message == f"{tmp_path / '2.parquet'}: column 'price' is string, but double in the files before it"


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("1.csv", "2.csv", "CSV conversion error to double: invalid value 'cheap'"),
        ("1.jsonl", "2.jsonl", "Column(/price) changed from number to string"),
    ],
)
def test_text_that_does_not_fit_what_came_before(
    first: str, second: str, found: str, queries: Path, tmp_path: Path, refused: Refused
) -> None:
    table = events()
    save(table, tmp_path / first)
    save(table.set_column(2, "price", pa.array(["cheap"] * len(table))), tmp_path / second)
    message = refused(queries, "--input", tmp_path)
    assert f"cannot read {tmp_path / second}: " in message
    assert found in message


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize("zoned_first", [True, False])
def test_times_with_and_without_a_zone(
    suffix: str, zoned_first: bool, queries: Path, tmp_path: Path, refused: Refused
) -> None:
    table = events()
    naive = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us")))
    save(table if zoned_first else naive, tmp_path / f"1{suffix}")
    save(naive if zoned_first else table, tmp_path / f"2{suffix}")
    message = refused(queries, "--input", tmp_path)
    assert f"2{suffix}" in message
    assert "zone" in message
    assert "\n" not in message


def test_a_broken_json_line(queries: Path, tmp_path: Path, refused: Refused) -> None:
    save(events(20_000), tmp_path / "1.jsonl")
    with (tmp_path / "1.jsonl").open("a") as file:
        file.write('{"ts": "2026-03-02T09:3\n')
    message = refused(queries, "--input", tmp_path / "1.jsonl")
    assert message.endswith("""line 20,001 is no JSON object: '{"ts": "2026-03-02T09:3'""")


def test_a_broken_csv_line(queries: Path, tmp_path: Path, refused: Refused) -> None:
    save(events(), tmp_path / "1.csv")
    with (tmp_path / "1.csv").open("a") as file:
        file.write("1,2\n")
    assert "CSV parse error: Expected 6 columns, got 2: 1,2" in refused(queries, "--input", tmp_path / "1.csv")


def test_a_truncated_gzip_file(queries: Path, tmp_path: Path, refused: Refused) -> None:
    save(events(20_000), tmp_path / "1.csv")
    content = gzip.compress((tmp_path / "1.csv").read_bytes())
    (tmp_path / "1.csv.gz").write_bytes(content[: len(content) // 2])
    assert f"cannot read {tmp_path / '1.csv.gz'}: " in refused(queries, "--input", tmp_path / "1.csv.gz")


def test_text_that_is_no_time(queries: Path, tmp_path: Path, refused: Refused) -> None:
    table = events()
    save(table.set_column(0, "ts", pa.array(["yesterday"] * len(table))), tmp_path / "1.csv")
    assert "no ISO 8601 time, such as 'yesterday'" in refused(queries, "--input", tmp_path / "1.csv")


def test_columns_that_are_not_there_are_named_for_all_queries(tmp_path: Path, refused: Refused) -> None:
    file = tmp_path / "q.toml"
    file.write_text(
        "".join(
            f'[[query]]\nname = "{n}"\nk = 1\nsize = "1 hour"\nscore = "{s}"\n'
            for n, s in (("a", "prise"), ("b", "venue"))
        )
    )
    save(events(), tmp_path / "1.parquet")
    message = refused(file, "--input", tmp_path / "1.parquet", "--time", "ts", "--id", "symbol")
    assert "query 'a': there is no column 'prise' (did you mean 'price'?)" in message
    assert "query 'b': a score must be number or integer, and venue is text" in message


def test_a_time_column_that_is_not_there(queries: Path, tmp_path: Path, refused: Refused) -> None:
    save(events(), tmp_path / "1.parquet")
    assert "no column 'tz' for the time" in refused(queries, "--input", tmp_path / "1.parquet", "--time", "tz")


def test_a_file_that_must_not_be_read(
    queries: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")  # root may read everything, so the refusal is played

    save(events(), tmp_path / "1.parquet")
    monkeypatch.setattr(pq, "ParquetFile", deny)
    message = refused(queries, "--input", tmp_path / "1.parquet")
    assert message == f"cannot read {tmp_path / '1.parquet'}: permission denied"


# Outputs and options.


def test_an_output_that_exists(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    save(events(), tmp_path / "in.parquet")
    output = tmp_path / "out.csv"
    output.write_text("precious")
    given = ["run", queries, "--input", tmp_path / "in.parquet", "--output", output]
    result = invoke(*given)
    assert result.exit_code == 2
    assert result.stderr == f"error: {output} exists already; name another file, or add --overwrite to replace it\n"
    assert output.read_text() == "precious"
    assert invoke(*given, "--overwrite").exit_code == 0
    assert output.read_text().startswith('"query"')


def test_outputs_that_cannot_be_written(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    save(events(), tmp_path / "in.parquet")
    (tmp_path / "folder.csv").mkdir()
    for output, said in (
        (tmp_path / "out.xlsx", "cannot tell from"),
        (tmp_path / "out.parquet.gz", "cannot tell from"),
        (tmp_path / "no" / "out.csv", "there is no folder"),
        (tmp_path / "folder.csv", "is a folder; name a file"),
    ):
        result = invoke("run", queries, "--input", tmp_path / "in.parquet", "--output", output)
        assert result.exit_code == 2
        assert said in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--engine", "flink"], "there is no engine 'flink'; use spark or local"),
        (["--checkpoint", "x"], "--checkpoint belongs to the Spark engine, and the engine is local"),
        (["--master", "local"], "--master belongs to the Spark engine"),
        (["--remote", "sc://x"], "--remote belongs to the Spark engine"),
        (["--engine", "spark", "--master", "local", "--remote", "sc://x"], "--master and --remote are both given"),
        (["--algorithm", "magic"], "there is no algorithm 'magic'; choose one of"),
        (["--time-unit", "h"], "the time unit is 'h'; use s, ms, us or ns"),
        (["--time-unit", "ms"], "time_unit is given but the time column 'ts' is timestamp"),
        (["--watermark", "5"], "watermark is '5', which is no length of time; write for example '10 minutes'"),
        (["--watermark", "soon"], "watermark is 'soon', which is no length of time"),
        (["--watermark", "-1 second"], "watermark is '-1 second'; it must not be negative"),
        (["--max-ahead", "7"], "max_ahead is '7', which is no length of time"),
        (["--max-ahead", "-1 day"], "max_ahead is '-1 day'; it must not be negative"),
        (["--late", "same.csv", "--rejected", "same.csv"], "name the same file"),
    ],
)
def test_options_that_do_not_go(
    options: list[str], said: str, queries: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(events(), tmp_path / "in.parquet")
    assert said in refused(queries, "--input", tmp_path / "in.parquet", *options)


def test_time_and_count_windows_do_not_go_into_one_file(tmp_path: Path, refused: Refused) -> None:
    file = tmp_path / "q.toml"
    file.write_text(
        "".join(f'[[query]]\nname = "{s}"\nk = 1\nsize = "{s}"\nscore = "price"\n' for s in ("1 hour", "10 events"))
    )
    save(events(), tmp_path / "in.parquet")
    message = refused(file, "--input", tmp_path / "in.parquet", "--time", "ts", "--id", "symbol")
    assert "query '10 events' counts events and query '1 hour' measures time" in message


def test_a_mistake_in_the_middle_leaves_all_outputs_untouched(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    folder, answers = tmp_path / "in", tmp_path / "answers"
    folder.mkdir()
    answers.mkdir()
    for number in range(5):
        save(events(), folder / f"{number}.parquet")
    (folder / "5.parquet").write_bytes(b"PAR1 not really PAR1")
    for name in ("out.parquet", "late.csv", "rejected.jsonl"):
        (answers / name).write_text("before")
    result = invoke(
        "run", queries, "--input", folder, "--watermark", "0 seconds", "--overwrite",
        "--output", answers / "out.parquet",
        "--late", answers / "late.csv", "--rejected", answers / "rejected.jsonl",
    )  # fmt: skip
    assert result.exit_code == 2
    assert {path.name: path.read_text() for path in answers.iterdir()} == dict.fromkeys(
        ("out.parquet", "late.csv", "rejected.jsonl"), "before"
    )


# Query files.


def test_all_mistakes_of_all_queries_are_reported_together(tmp_path: Path, refused: Refused) -> None:
    file = tmp_path / "q.toml"
    file.write_text(
        """
        colour = "red"
        [[query]]
        name = "first"
        k = 0
        size = "1 hour"
        score = "price *"
        [[query]]
        name = "second"
        size = "1 fortnight"
        score = "price"
        wher = "x > 1"
        [[query]]
        k = 1
        size = "1 hour"
        score = "price"
        """
    )
    message = refused(file, "--input", tmp_path)
    for said in (
        "unknown key 'colour' above the queries",
        "query 'first': k is 0",
        "query 'first': score",
        "query 'second': unknown key 'wher'",
        "query 'second': missing key 'k'",
        "query 'second': size is '1 fortnight'",
        "query number 3: missing key 'name'",
    ):
        assert said in message


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("q.toml", "[[query]\n", "is no TOML: "),
        ("q.toml", "", "there is no query; write a [[query]] table"),
        ("q.toml", '[query]\nname = "a"\n', "write [[query]], in double brackets"),
        (
            "q.toml",
            "time = 3\n" + '[[query]]\nname = "a"\nk = 1\nsize = "1 s"\nscore = "x"\n',
            "time is 3; give a text",
        ),
        (
            "q.toml",
            '[[query]]\nname = "a"\nk = 1\nsize = "1 s"\nscore = "x"\n' * 2,
            "there is more than one of this name",
        ),
        ("q.toml", '[[query]]\nname = "a"\nk = 1\nsize = "1 s"\nscore = "x"\n', "the column of the time is not known"),
        ("q.rq", "SELECT", "q.rq: a query begins with REGISTER STREAM :name AS (line 1, column 1)"),
        ("q.yaml", "", "is no query file; queries are written in a .toml, .rq (RSP-QL) or .sql file"),
    ],
)
def test_query_files_that_cannot_be_used(name: str, content: str, said: str, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / name).write_text(content)
    assert said in refused(tmp_path / name, "--input", tmp_path)


def test_a_query_file_that_is_not_there(tmp_path: Path, refused: Refused) -> None:
    assert refused(tmp_path / "q.toml", "--input", tmp_path).endswith("q.toml: no such file or directory")


def test_an_impossible_time_stops_the_run_with_a_sentence(queries: Path, tmp_path: Path, refused: Refused) -> None:
    table = events(2)
    far = pa.array([datetime(1, 1, 1), datetime(9999, 1, 1)], pa.timestamp("us"))
    save(table.set_column(0, "ts", far), tmp_path / "in.parquet")
    assert "check the unit of the time column" in refused(queries, "--input", tmp_path / "in.parquet")
