"""The page of a benchmark, written from its figures: ``python -m skyband.bench.report RESULTS.csv FOLDER``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from skyband.bench import plots
from skyband.bench.measure import Row, read_rows
from skyband.bench.targets import judge

METHOD = """\
## Method

- **The stream**: {events:,} events in memory as Arrow columns (`time`, `id`, `score`), in order of time, spread over
  2,000 seconds of event time; scores are uniform random numbers where nothing else is said, ids never repeat.
- **The query**: the best 100 of the last 600 seconds, every 10 seconds; every window that contains an event is
  answered. Times run from registering the queries to the last answer, with all ids, scores and times as columns.
- **Ratios within one run**: what is compared runs in turn (A B A B …), so that whatever disturbs the machine hits all
  alike. The figures are of the fastest round; the median is in the raw rows.
- **Warm-up is excluded**: each way runs once or twice before it is timed. Skyband compiles its kernels when they are
  first used (some seconds, once per installation; then they are loaded from a cache): not in these figures.
- **Same answers**: before anything is timed, all ways answer a hundredth of the stream; ids of every window must agree,
  else the benchmark stops. Peers get their data in their own form for free (DuckDB a native table, Polars a frame), are
  told that the stream is sorted, and owe no rule for ties.
- **Windows of growing size** run over the same number of events spread over more event time (20,000 s; in falling
  order 10,000 s and a tenth of the events), so that the largest still fit; only windows that end within the stream are
  answered, so their number does not depend on their size.
"""

RUN_IT = """\
## Run it yourself

```
pip install 'skyband[bench]'
skyband bench core            # some minutes
skyband bench core --smoke    # some seconds, only to see that it works
skyband bench core --full     # larger, more repeats
```

Raw rows: `benchmarks/results/core.csv`, versions and machine in `core.json` beside it.
"""

LEFT_OUT = """\
## Left out

Spark and Flink are engines for many machines; one process over columns in memory says little about them. They will be
compared where they are at home, over files and topics, in a benchmark of their own. Systems that keep views fresh
(RisingWave, Materialize, Feldera) need the data inside a server; a fair comparison takes one, and is left for later.
"""

SECTIONS = {
    "pass": "One query against one pass over the scores",
    "window": "The size of the window",
    "order": "Falling scores, the worst case",
    "queries": "Many queries",
    "k": "The size of the answer",
    "parquet": "Parquet files",
    "peers": "One query, other ways",
    "many": "A hundred queries, other ways",
}
TEXTS = {
    "pass": """\
What one query costs, in passes of `np.flatnonzero(score > t)` over the same column; `t` lets through as many events as
the panes' best 100 together.""",
    "window": """\
Doubling the window should cost next to nothing: what is kept grows with the logarithm of the window.""",
    "order": """\
When every event is worse than all before it, none ever beats another: the best 100 of every pane must be kept until
they expire.""",
    "queries": """\
Random queries (size 100–1,000 s, slide 10–100 s in whole seconds, k from 10) over one stream. With whole seconds the
panes are one second long. Rows of answers are references to events, which several answers share; *skyband* makes
all columns from them, as everywhere on this page, *by reference* leaves that to whoever needs them.""",
    "k": "One query, k from 1 to 10,000.",
    "parquet": """\
The same stream in 20 files (Snappy): one query over them, against only reading the three columns with PyArrow, and
against the peers. *panes* reads twice (each pane's k-th score, then the events that reach it), *one pass* aggregates
structs, *from memory* reads everything first.""",
    "peers": """\
*panes*: each pane's best first, then windows over these. *loop*: one query per window, with a tenth of the events.
*naive*: Skyband's own baseline, which sorts every window, with a hundredth of the events.""",
    "many": """\
Sizes 100–1,000 s and slides 10–100 s in tens of seconds, k from 10 to 1,000. The peers compute the best 1,000 of each
10 s once and share them among all queries.""",
}
NOTE = "<!-- Written by skyband.bench.report from the raw rows; to change it, run the benchmark. -->"


def write(csv: Path, docs: Path) -> Path:
    """Write ``benchmarks.md`` and its plots into a folder; return the page."""
    rows = read_rows(csv)
    about = json.loads(csv.with_suffix(".json").read_text())
    drawn = plots.draw(rows, docs / "benchmarks")
    parts = [
        f"# Benchmarks\n\n{NOTE}",
        _warning(about),
        METHOD.format(**about),
        _machine(about),
        RUN_IT,
        "## Targets\n\n" + _table(("target", "measured", "promised", ""), (target.cells for target in judge(rows))),
        *(_section(path.stem, rows) for path in drawn),
        LEFT_OUT,
    ]
    page = docs / "benchmarks.md"
    page.write_text("\n\n".join(part.strip() for part in parts if part) + "\n")
    return page


def _warning(about: dict[str, Any]) -> str:
    if about["size"] != "smoke":
        return ""
    return "> **This was a smoke run over little data: it shows that the benchmark works, its figures mean nothing.**"


def _machine(about: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    commit = f" (commit {about['commit']})" if about["commit"] else ""
    return (
        f"## Machine\n\n{about['processor']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']}; "
        f"{about['date']}, seed {about['seed']}, size `{about['size']}`.\n\n{versions}{commit}."
    )


def _section(name: str, rows: Sequence[Row]) -> str:
    title, text = SECTIONS[name], TEXTS[name]
    found = [row for row in rows if row.experiment == plots.EXPERIMENT_OF.get(name, name)]
    if name in ("peers", "many"):
        found = [row for row in found if (row.value == "many queries") == (name == "many")]
    return f"## {title}\n\n{text}\n\n![{title}](benchmarks/{name}.svg)\n\n{_figures(found)}"


def _figures(rows: Sequence[Row]) -> str:
    kept = any(row.kept for row in rows)
    head = (rows[0].parameter, "way", "events", "seconds", "M events/s", "ratio", "against") + (
        ("kept",) if kept else ()
    )
    lines = (
        (
            row.value, row.way, f"{row.rows:,}", f"{row.seconds_min:.4f}", f"{row.events_per_s / 1e6:,.3g}",
            "" if row.ratio is None else f"{row.ratio:.2f}", row.baseline,
        ) + ((f"{row.kept:,}",) if row.kept else ())
        for row in rows
    )  # fmt: skip
    return _table(head, lines)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---" for _ in head]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
