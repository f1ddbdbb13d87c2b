"""Run a benchmark: ``python -m benchmarks core [--smoke | --full]``."""

from __future__ import annotations

import argparse

from benchmarks import BENCHMARKS, BenchmarkError, run


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", metavar="NAME", help=f"which benchmark: {', '.join(BENCHMARKS)}")
    parser.add_argument(
        "--data", help="where Parquet files are kept; for the experiments of papers where the recorded data sets are"
    )
    parser.add_argument("--output", help="where figures and page go; FILE.csv for the figures alone")
    parser.add_argument("--experiment", help="only this one, into --output FILE.csv")
    parser.add_argument("--variant", dest="variants", action="append", default=[], help="another way to run it")
    parser.add_argument("--full", action="store_true", help="larger sizes, more repeats")
    parser.add_argument("--smoke", action="store_true", help="a few seconds, only to see that it works")
    try:
        run(**vars(parser.parse_args()))
    except BenchmarkError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
