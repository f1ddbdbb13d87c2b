"""What the benchmark `topkw` runs on: points in the unit cube, in random order or as sensors measured them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks import BenchmarkError
from benchmarks.papers import USUAL_FOLDER
from benchmarks.workloads import SEED
from skyband.order import FloatArray

FILE = "sensors/readings.parquet"
MEASURED = ("air_temp_c", "surface_temp_c", "humidity_pct", "wind_ms")
DRAWN, RECORDED = ("uniform", "clustered"), ("randomised real", "real")
SPREAD = 0.1
FAULTY = 0.001  # the share of readings at either end of each value that is taken for faults


def recorded_sensors(given: Path | None) -> Path | None:
    """Return the file of sensor readings; None where there is none.

    Raises
    ------
    BenchmarkError
        When the folder of recorded data was given, here or in the environment, and lacks it.
    """
    named = given or os.environ.get("SKYBAND_DATA")
    file = Path(named or USUAL_FOLDER) / FILE
    if file.exists():
        return file
    if named:
        msg = f"there is no {FILE} in {named}; name the folder of the recorded data sets, or none at all"
        raise BenchmarkError(msg)
    return None


def names(file: Path | None) -> tuple[str, ...]:
    """Return which data sets there are."""
    return (*DRAWN, *RECORDED) if file else DRAWN


def points(name: str, rows: int, dimensions: int, file: Path | None = None) -> FloatArray:
    """Return the events of a data set, in order: a row each, with so many attributes.

    Examples
    --------
    >>> [points(name, 3, 2).shape for name in DRAWN]
    [(3, 2), (3, 2)]
    """
    rng = np.random.default_rng(SEED)
    if name == "uniform":
        return rng.random((rows, dimensions))
    if name == "clustered":
        return _clustered(rng, rows, dimensions)
    assert file is not None
    found = readings(file)
    order = np.arange(rows) % len(found) if name == "real" else rng.integers(len(found), size=rows)
    return np.ascontiguousarray(found[order, :dimensions])


def _clustered(rng: np.random.Generator, rows: int, dimensions: int) -> FloatArray:
    """Draw around two centres; what falls outside of the unit cube is drawn again."""
    centres = rng.random((2, dimensions))
    drawn = centres[rng.integers(2, size=rows)]
    found = drawn + rng.normal(0.0, SPREAD, drawn.shape)
    while (outside := ((found < 0) | (found > 1)).any(axis=1)).any():
        found[outside] = drawn[outside] + rng.normal(0.0, SPREAD, (np.count_nonzero(outside), dimensions))
    return found


@cache
def readings(file: Path) -> FloatArray:
    """Return the readings that have all four values, none of them faulty, in order of time; from 0 to 1."""
    table = pq.read_table(file, columns=list(MEASURED))
    values = np.column_stack([table[name].to_numpy(zero_copy_only=False) for name in MEASURED]).astype(np.float64)
    values = values[np.isfinite(values).all(axis=1)]
    low, high = np.quantile(values, [FAULTY, 1 - FAULTY], axis=0)
    values = values[((values >= low) & (values <= high)).all(axis=1)]
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray((values - low) / (high - low))


def sources(file: Path | None) -> str:
    """Say in words which data there are."""
    made = (
        "*uniform*: random numbers. *clustered*: normal numbers around two random centres, with a standard deviation "
        f"of {SPREAD} (the paper says that the variance is 0.1, which would fill the unit square nearly evenly)."
    )
    if file is None:
        return f"{made} No sensor readings were found, so *randomised real* and *real* are left out"
    return (
        f"{made} *real*: {len(readings(file)):,} readings of weather stations on the Grand-St-Bernard, in order of "
        "time: air and surface temperature, humidity and wind, each scaled to 0 to 1, without the readings that lack "
        "one or are among the lowest or highest thousandth of one (faults). It begins anew where it ends. "
        "*randomised real*: the same readings, drawn at random. The paper has readings of a like network on a campus, "
        "of currents and voltages; they were not to be had"
    )
