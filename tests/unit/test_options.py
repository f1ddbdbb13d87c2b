"""Options of algorithms: how they are written, what is refused, where they arrive, and what remembers them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms import ALGORITHMS, find
from skyband.algorithms.options import Option
from skyband.algorithms.stkqf.stkqf import STKQF
from skyband.algorithms.topkw.sliding import Sliding
from skyband.files.queries import load
from tests.groups import rankings

EVENTS = {"t": np.arange(600), "x": np.random.default_rng(3).random(600), "y": np.random.default_rng(4).random(600)}
EVERY = [(name, option) for name, algorithm in ALGORITHMS.items() for option in algorithm.options]


def query(**more: Any) -> sb.Query:
    return sb.Query("top", k=3, score="x", window=sb.Window("60 events", slide="20 events"), **more)


def ids(algorithm: str) -> list[list[int | str | None]]:
    answers = sb.run([query()], EVENTS, time="t", id="t", algorithm=algorithm)
    return [[row.id for row in answer.rows] for answer in answers]


@pytest.mark.parametrize(
    ("texts", "canonical"),
    [
        (["rapf(buffer=500, pruning=0.3)", " rapf ( pruning=.3,buffer = 5e2 )", "rapf(buffer=5_00,pruning=3e-1)"],
         "rapf(buffer=500, pruning=0.3)"),
        (["pa", "pa()", "pa( )", "pa(error=1e-3)", "pa(cells=10, error=0.001)"], "pa"),
        (["stkqf(cells=16)", "stkqf(partitions=2, cells=16.0)"], "stkqf(cells=16)"),
    ],
)  # fmt: skip
def test_equal_spellings_are_one_algorithm(texts: list[str], canonical: str) -> None:
    assert {find(text) for text in texts} == {find(canonical)}
    assert find(canonical).notation() == canonical


@pytest.mark.parametrize(
    "text",
    ["pa(eror=1)", "pa(error)", "pa(error=)", "pa(error=x)", "pa(error=1,error=1)", "pa(error=0)", "pa(error=1.1)",
     "pa(1)", "pa(error=nan)", "pa(error=inf)", "pa(error=1e999)", "pa(error=1,)", "pa(cells=1.5)", "pa(cells=0)",
     "pa(additional=-1)", "pa(error=__import__('os'))", "pa(error=1)(cells=2)", "pa(error=True)"],
)  # fmt: skip
def test_what_is_wrong_is_said_with_what_there_is(text: str) -> None:
    with pytest.raises(sb.QueryError) as caught:
        find(text)
    said = str(caught.value)
    assert "\n" not in said
    assert "error=0.001 (σ, above 0 to 1)" in said, said
    assert "additional=10 (a, whole numbers 0 to 1000000)" in said


@pytest.mark.parametrize(
    "text", ["paa", "paa(error=1)", "", "pa(", "pa)", "pa(error=1", "pa error=1", "os.system", 3, None, []]
)
def test_unknown_algorithms_are_refused_with_those_there_are(text: Any) -> None:
    with pytest.raises(sb.QueryError, match=r"^there is no algorithm .*; choose one of adaptive, blocks, .*stkqf$"):
        find(text)


def test_an_algorithm_without_options_says_so() -> None:
    with pytest.raises(sb.QueryError, match=r"'staircase' is given 'k=3', which it does not take; it has no options"):
        find("staircase(k=3)")


def test_long_texts_are_refused_quickly() -> None:
    with pytest.raises(sb.QueryError, match="there is no algorithm"):
        find(f"pa(error={'1' * 100_000})")


@pytest.mark.parametrize("option", dict.fromkeys(option for _, option in EVERY), ids=str)
def test_each_option_is_taken_at_both_ends_of_its_range_and_not_beyond(option: Option) -> None:
    low = option.low + 1e-6 if option.open else option.low
    for value in (low, option.high):
        assert option.read(repr(value)) == value
    assert option.read(repr(option.high + 1)) is None
    assert option.read(repr(option.low if option.open else option.low - 1)) is None
    assert option.default is None or option.read(repr(option.default)) == option.default
    assert option.meaning
    assert option.name in str(option)


@pytest.mark.parametrize(("name", "option"), [pair for pair in EVERY if ALGORITHMS[pair[0]].exact])
def test_exact_algorithms_are_exact_with_any_option(name: str, option: Option) -> None:
    value = {"error": 1.0, "buffer": 3, "recent": 0.5, "pruning": 0, "cells": 1}.get(option.name, 3)
    assert ids(f"{name}({option.name}={value})") == ids("naive")


def test_options_decide_what_is_kept() -> None:
    def kept(algorithm: str) -> int:
        monitor = sb.Monitor([query()], time="t", id="t", algorithm=algorithm)
        monitor.push(EVENTS)
        return monitor.stats().groups[0].kept

    assert kept("pa(error=0.5)") < kept("pa") < kept("pa(error=1e-9)")
    assert kept("rapf(buffer=5)") < kept("rapf(buffer=30)")
    assert kept("ra(pruning=0)") < kept("ra(pruning=5)")


def test_the_cells_of_stkqf_are_those_of_its_grid_after_a_restart_too() -> None:
    monitor = sb.Monitor([query()], time="t", id="t", algorithm="stkqf( cells=3 )")
    monitor.push(EVENTS)
    restored = sb.Monitor.restore(monitor.snapshot())
    for each in (monitor, restored):
        kept = rankings(each)[0].algorithm
        assert isinstance(kept, STKQF)
        assert kept.grid.cells == 3
        assert each.stream.algorithm is find("stkqf(cells=3)")
    assert "algorithm 'stkqf(cells=3)'" in restored.explain()


@pytest.mark.parametrize("indexed", [True, False])
def test_additional_candidates_are_for_grids_of_queries(indexed: bool) -> None:
    """As in the paper's experiments: a = 10 where queries are indexed (table IX), else none."""
    score = sb.Distance({"x": 0.5, "y": 0.5}) if indexed else "x"
    near = sb.Subscription("near", k=3, score=score, last="60 events")
    extra = {}
    for algorithm in ("pa", "pa(additional=0)", "pa(additional=25)"):
        following = sb.Subscriptions([near], time="t", id="t", algorithm=algorithm)
        following.push(EVENTS)
        (group,) = following.groups.values()
        assert group.engine is not None
        extra[algorithm] = int(group.engine.most[0] - group.engine.least[0])
    assert list(extra.values()) == ([10, 0, 25] if indexed else [0, 0, 0])


def test_a_monitor_has_no_grid_of_queries_and_no_additional_candidates() -> None:
    algorithm = find("pa(additional=25)")
    assert issubclass(algorithm, Sliding)
    assert algorithm.method_with_options(indexed=False).additional == 0


def test_subscriptions_take_options_and_remember_them() -> None:
    near = sb.Subscription("near", k=3, score=sb.Distance({"x": 0.5}), last="60 events", emit="changes")
    following = sb.Subscriptions([near], time="t", id="t", algorithm="rapf(cells=4,buffer=7)")
    half = {name: values[:300] for name, values in EVENTS.items()}
    rest = {name: values[300:] for name, values in EVENTS.items()}
    following.push(half)
    restored = sb.Subscriptions.restore(following.snapshot())
    assert restored.algorithm is find("rapf(buffer=7, cells=4)")
    (group,) = restored.groups.values()
    assert group.engine is not None
    assert group.engine.grid is not None
    assert (group.engine.buffer, group.engine.grid.cells) == (7, 4)
    assert restored.push(rest).table() == following.push(rest).table()


def test_a_query_file_names_an_algorithm_with_options(tmp_path: Path) -> None:
    text = '[[query]]\nname = "top"\nk = 3\nsize = "1 hour"\nscore = "price"\n'
    file = tmp_path / "queries.toml"
    file.write_text('algorithm = "stkqf(cells=16)"\n' + text)
    assert load(file).algorithm == "stkqf(cells=16)"
    file.write_text('algorithm = "stkqf(cell=16)"\n' + text)
    with pytest.raises(sb.QueryError, match=r"queries.toml: algorithm 'stkqf' is given 'cell=16'.*cells=8"):
        load(file)
    file.write_text("algorithm = 3\n" + text)
    with pytest.raises(sb.QueryError, match="algorithm is 3; give a text"):
        load(file)


def test_the_options_of_all_algorithms_are_plain_values() -> None:
    assert json.loads(json.dumps([option.as_dict() for _, option in EVERY]))
