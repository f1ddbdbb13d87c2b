"""The experiments with remote data: on made-up data to see that they count right, on recorded ones that they run."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

pytest.importorskip("matplotlib")

import benchmarks
from benchmarks import acquatop, measure, report
from benchmarks import filter as filters
from benchmarks.acquatop import claims
from benchmarks.filter import page as filter_page
from benchmarks.remote.twitter import START, Twitter, recorded_tweets
from skyband.remote.policies import POLICIES
from skyband.times import SECOND

DATA = Path(os.environ.get("SKYBAND_DATA", Path(__file__).parents[3] / "shared" / "data"))
with_data = pytest.mark.skipif(
    not (DATA / "twitter").is_dir(), reason=f"no recorded tweets in {DATA.name}/: set SKYBAND_DATA to their folder"
)
MILLI = START // 1_000
USERS, SNAPSHOTS = (7, 8, 9), 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three users, a snapshot a minute, two draws of one number of changes and one of another."""
    (tmp_path / "twitter").mkdir()
    seconds = [(1, 7), (2, 7), (3, 8), (70, 7), (70, 9), (130, 9), (190, 8)]
    lines = ["timestamp_ms,user_id", *(f"{MILLI + 1_000 * at},{user}" for at, user in seconds)]
    with gzip.open(tmp_path / "twitter" / "mentions.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    times = [MILLI + 60_000 * at for at in range(SNAPSHOTS)]
    lines = [f"{user},{1_000 * user + 10 * at},{time}" for at, time in enumerate(times) for user in USERS]
    with gzip.open(tmp_path / "twitter" / "followers.csv.gz", "wt") as file:
        file.write("\n".join(["user_id,followers,snapshot_ms", *lines]) + "\n")
    rows = len(USERS) * SNAPSHOTS
    columns = {"user_id": np.repeat(USERS, SNAPSHOTS), "snapshot_ms": times * len(USERS)}
    draws = {name: np.arange(rows, dtype=np.int16) for name in ("ch20_1", "ch20_4", "ch5_1")}
    pq.write_table(pa.table(columns | draws), tmp_path / "twitter" / "ds_ch.parquet")
    return tmp_path


@pytest.fixture
def tweets(folder: Path) -> Twitter:
    return recorded_tweets(folder, "ds_ch.parquet")


def test_every_draw_that_is_there_is_found(tweets: Twitter) -> None:
    assert tweets.draws() == {5: [1], 20: [1, 4]}


def test_a_user_counts_once_per_slide_or_with_every_mention(tweets: Twitter) -> None:
    users = np.array(USERS)
    once, every = (
        tweets.windows(users, 100 * SECOND, 60 * SECOND, 2, every_mention=choice) for choice in (False, True)
    )
    assert [window.end for window in once] == [START + 100 * SECOND, START + 160 * SECOND]
    assert once[0].users.tolist() == [0, 1, 2]
    assert once[0].mentions.tolist() == [2, 1, 1]  # user 7: twice in the first slide, once in the second
    assert every[0].mentions.tolist() == [3, 1, 1]
    assert ((once[0].last - START) // SECOND).tolist() == [70, 3, 70]
    assert once[1].users.tolist() == [0, 2]
    assert once[1].mentions.tolist() == [1, 2]
    fewer = tweets.windows(users[1:], 100 * SECOND, 60 * SECOND, 1)
    assert fewer[0].users.tolist() == [0, 1]  # of user 7 nothing is known, who so is in no join


def test_a_value_is_that_of_the_last_snapshot_strictly_before(tweets: Twitter) -> None:
    remote = tweets.changes(20, 4)
    minute = START // 1_000 * 1_000 + 60 * SECOND
    assert remote.at([START - 5, minute, minute + 1])[:, 0].tolist() == [0.0, 0.0, 1.0]
    assert remote.replica().view([8]).value.tolist() == [float(SNAPSHOTS)]
    assert remote.rates() == pytest.approx([1 / 60] * 3)
    assert np.isnan(remote.replica().rates([8])).all()  # nobody has told it
    assert remote.replica(rates=True).rates([8]) == pytest.approx([1 / 60])


def test_moved_series_cross_the_threshold_and_the_others_do_not(tweets: Twitter) -> None:
    remote = tweets.followers()
    threshold = filters.uncrossed(remote, near=8_050.0)  # user 8 has 8,000 to 8,110
    assert threshold == 7_999.5
    moved = filters.crossing(remote, 67, 1, threshold)
    low, high = moved.values.min(axis=1), moved.values.max(axis=1)
    assert int(((low <= threshold) & (threshold <= high)).sum()) == 2
    assert (np.diff(moved.values, axis=1) == np.diff(remote.values, axis=1)).all()
    assert not np.array_equal(filters.crossing(remote, 67, 2, threshold).values, moved.values)


def test_a_folder_without_tweets_is_refused(tmp_path: Path) -> None:
    for name in ("acquatop", "filter"):
        with pytest.raises(
            benchmarks.BenchmarkError, match=r"there is no twitter/mentions\.csv\.gz in .*name the folder"
        ):
            benchmarks.run(name, data=tmp_path, smoke=True, output=tmp_path / "out.csv")


def test_each_benchmark_needs_its_own_files_only(folder: Path) -> None:
    (folder / "twitter" / "followers.csv.gz").unlink()
    with acquatop.setting(acquatop.Scale(windows=3, data=folder)) as setting:
        rows = list(acquatop.EXPERIMENTS["0"](setting))
    assert {row.draw for row in rows} == {1, 4}
    with pytest.raises(benchmarks.BenchmarkError, match=r"there is no twitter/followers\.csv\.gz"):
        filters.setting(filters.Scale(data=folder))


def test_a_number_of_changes_that_is_not_there_is_named(folder: Path) -> None:
    with (
        acquatop.setting(acquatop.Scale(windows=2, data=folder)) as setting,
        pytest.raises(benchmarks.BenchmarkError, match="no column ch10_1 in"),
    ):
        list(acquatop.EXPERIMENTS["2"](setting))


def test_experiments_and_variants_are_checked(tmp_path: Path) -> None:
    with pytest.raises(benchmarks.BenchmarkError, match="acquatop has no experiment '9'; choose one of 0, 1, 2, 3, 4"):
        benchmarks.run("acquatop", experiment="9", output=tmp_path / "rows.csv")
    with pytest.raises(benchmarks.BenchmarkError, match="one experiment alone makes no page"):
        benchmarks.run("acquatop", experiment="1")
    with pytest.raises(benchmarks.BenchmarkError, match="acquatop has no variant 'fast'; choose one of authors-tsm"):
        benchmarks.run("acquatop", variants=["fast"], output=tmp_path / "rows.csv")
    with pytest.raises(benchmarks.BenchmarkError, match="stkqf has no variant 'fast'; it has none"):
        benchmarks.run("stkqf", variants=["fast"], smoke=True, output=tmp_path / "rows.csv")


def test_the_authors_tsm_refreshes_one_less(tweets: Twitter) -> None:
    usual, variant = (
        acquatop.Setting(acquatop.Scale(windows=3, variants=frozenset(names)), tweets, {})
        for names in ((), ("authors-tsm",))
    )
    point = acquatop.Point(k=1, budget=1)
    assert variant.measure("AT-TSM", point, 1).tolist() == usual.measure("WST", point, 1).tolist()


def test_grids_are_those_of_the_paper() -> None:
    assert {name: len(points) for name, points in acquatop.GRID.items()} == {"0": 1, "1": 9, "2": 5, "3": 12, "4": 10}
    assert acquatop.GRID["0"] == (acquatop.Point(20, 5, 20, 7),)
    assert {point.k for point in acquatop.GRID["3"]} == {5, 7, 10, 15, 20, 30}
    assert set(acquatop.RANKING) == {name for name in POLICIES if not name.endswith((".F", "Update"))}


# On recorded data.


@pytest.fixture(scope="module", params=["acquatop", "filter"])
def smoke(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, benchmarks.Outcome]:
    console = Console(file=io.StringIO(), width=120)
    place = tmp_path_factory.mktemp("bench")
    return request.param, benchmarks.run(request.param, data=DATA, smoke=True, output=place, console=console)


@with_data
def test_rows_have_all_columns_and_pages_all_sections(smoke: tuple[str, benchmarks.Outcome]) -> None:
    name, outcome = smoke
    kind = {"acquatop": acquatop.Quality, "filter": filters.Distance}[name]
    with outcome.csv.open() as file:
        head = next(csv.reader(file))
    assert head == [field.name for field in fields(kind)]
    assert measure.read_rows(outcome.csv, kind) == outcome.rows
    assert outcome.page is not None
    page, made = outcome.page.read_text(), report.page_of(name)
    assert "its figures mean nothing" in page
    assert all(f"## {section.title}\n" in page for section in made.sections.values())
    drawn = {path.stem for path in (outcome.page.parent / name).glob("*.svg")}
    assert drawn == {key for key, section in made.sections.items() if section.plot is not None}
    assert outcome.targets
    assert json.loads(outcome.csv.with_suffix(".json").read_text())["size"] == "smoke"


@with_data
def test_every_policy_is_in_every_cell(smoke: tuple[str, benchmarks.Outcome]) -> None:
    name, outcome = smoke
    cells: dict[tuple[object, ...], set[str]] = {}
    for row in outcome.rows:
        if not row.experiment.endswith("strict"):
            parts = [getattr(row, part) for part in ("experiment", "draw", "ch", "k", "n", "percentage", "budget")
                     if hasattr(row, part)]  # fmt: skip
            cells.setdefault(tuple(parts), set()).add(row.policy)
    expected = set(acquatop.RANKING if name == "acquatop" else filters.FILTERING)
    assert cells
    assert all(found == expected for found in cells.values())


@with_data
def test_no_policy_beats_the_oracle_and_none_is_worse_than_no_refresh() -> None:
    setting = acquatop.Setting(acquatop.Scale(windows=40), recorded_tweets(DATA, "ds_ch.parquet"), {})
    found = {name: setting.measure(name, acquatop.Point(), 1).sum(axis=1) for name in ("WST", "AT-GAIN", "AT-ASM")}
    assert (found["WST"] < found["AT-GAIN"]).all()
    assert (found["AT-ASM"] <= 40).all()
    assert found["AT-ASM"][1] > 39


# What the pages say.


def quality(policy: str, figure: float, **more: object) -> acquatop.Quality:
    row = acquatop.Quality("1", 1, 20, 5, 10, 3, policy, figure, figure, figure)
    return replace(row, **more)  # type: ignore[arg-type]


def test_ours_is_judged_against_the_best_other() -> None:
    rows = [quality("AT-TSM", 100.0), quality("AT-BSM", 110.0), quality("AT-GAIN", 109.0), quality("AT-ASM", 150.0)]
    targets = claims.judge(rows)
    assert [target.cells[1:] for target in targets[:1]] == [("-1.00", "≥ 0.00", "not met")]
    assert "B = 3: AT-BSM" in targets[0].text
    assert targets[-1].cells == (targets[-1].text, "1.00", "≤ 0.00", "not met")  # AT-BSM is better in both


def test_where_an_aim_is_ahead_level_and_behind_is_counted() -> None:
    rows = [quality("AT-TSM", 100.0, k=k) for k in (5, 7, 9)]
    rows += [quality("AT-GAIN.set", 99.0 + k, k=5 + 2 * k) for k in range(3)]
    rows += [quality("AT-GAIN.set", 101.0, k=5, experiment="1 strict")]
    _, lines = claims.standing(rows)
    assert list(lines)[-2:] == [
        ("precision", "AT-GAIN.set", "yes", "1", "1", "1", "K = 5, B = 3, CH = 20: -1.000"),
        ("precision", "AT-GAIN.set", "no", "1", "0", "0", ""),
    ]
    assert [target.cells[1] for target in claims.judge(rows) if "precision of AT-GAIN.set" in target.text] == [
        "-1.00", "-1.00",
    ]  # fmt: skip


def test_the_median_of_the_draws_counts() -> None:
    rows = [quality("AT-TSM", figure, draw=draw) for draw, figure in enumerate((100.0, 104.0, 101.0))]
    (cell,) = claims.points(rows, lambda row: row.ndcg).values()
    assert cell == {"AT-TSM": 101.0}


def test_less_distance_is_better() -> None:
    found = dict.fromkeys((*filter_page.PLAIN, *filter_page.COMBINED, "AT-GAIN"), 8.0) | {"WSJ-RND": 4.0}
    rows = [filters.Distance("percentage", 1, 20, 3, name, distance) for name, distance in found.items()]
    first, *_, last = filter_page.judge(rows)
    assert first.cells[1:] == ("4.00", "≤ 0.00", "not met")
    assert "up to 30 %: distance of Filter Update" in first.text
    assert (last.figure, last.met) == (0.0, True)
