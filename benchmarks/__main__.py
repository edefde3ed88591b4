"""python -m benchmarks: run every benchmark and print one table each."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import history, soak
from benchmarks.every_statistic import STATISTICS
from benchmarks.timing import Figure

NAMES = (
    *("simulate", "release", "scale", "startup", "device", "form", "store", "way", "serve_load"),
    *("handshake", "capacity", "points", "hostile", "parsers", "partitions", "attacks", "soak"),
    *("planning", "regression", "selection", "intervals", "relations", "plans", "wishes", "web"),
    *("console", "relay"),
)
"""The benchmarks in their order: each is a module with a function `table`, except "attacks"."""
QUICK = ("intervals", "plans", "relations", "relay", "wishes")
"""Benchmarks that also have a quick version."""
AGAIN = 2
"""How often to repeat a table that has a row slower than in the last release."""


def main() -> int:
    """Run the requested benchmarks and return 1 if a row is slower than in the last release."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help=f"about a tenth of {', '.join(QUICK)}")
    parser.add_argument(
        "--hours",
        type=float,
        default=soak.HOURS,
        help="hours of soak (%(default)s); a trial takes four",
    )
    parser.add_argument(
        "--minutes", type=float, default=0.25, help="minutes of each attack (%(default)s)"
    )
    parser.add_argument(
        "--page", type=Path, help="write the coverage of intervals to this page, between its marks"
    )
    parser.add_argument(
        "--seed", type=int, help="seed of the coverage of intervals; fresh by default"
    )
    parser.add_argument(
        "--statistic",
        action="append",
        choices=STATISTICS,
        metavar="NAME",
        help="a statistic to cover; all by default",
    )
    parser.add_argument("--campaigns", type=int, help="campaigns per cell of this coverage")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the figures, as JSON")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="compare with the last release, and fail if a row takes more than a tenth longer",
    )
    asked = parser.parse_args()
    for name in asked.names:
        if name not in NAMES:
            parser.error(f"no benchmark is called {name!r}")
    measured: dict[str, list[Figure]] = {}
    for name in asked.names or NAMES:
        run = partial(_table(name), **({"quick": asked.quick} if name in QUICK else {}))
        if name == "soak":
            run = partial(run, asked.hours)
        elif name == "attacks":
            run = partial(run, asked.minutes)
        elif name == "intervals":
            run = partial(run, page=asked.page, seed=asked.seed, campaigns=asked.campaigns)
            run = partial(run, statistics=asked.statistic or ())
        elif name == "relations":
            run = partial(run, seed=asked.seed)
        measured[name] = run() or []
    releases = history.releases()
    last = next(reversed(releases), None)
    found = []
    if asked.compare and last is not None:
        found = _compare(measured, releases[last], last)
    figures = [figure for of_table in measured.values() for figure in of_table]
    if asked.write:
        history.write(figures, asked.write)
    return 1 if found else 0


def _table(name: str) -> Callable[..., Any]:
    if name == "attacks":
        return import_module("benchmarks.hostile_load").judged
    return import_module(f"benchmarks.{name}").table


def _compare(
    measured: dict[str, list[Figure]], before: Sequence[Figure], version: str
) -> list[history.Change]:
    """Print and return slower rows; a table that has one is measured again."""
    for name, figures in measured.items():
        for _ in range(AGAIN):
            if history.slower(before, measured[name]):
                print(f"{name}: slower than in {version}; measured again")
                measured[name] = history.least(figures, _table(name)() or [])
                figures = measured[name]
    now = [figure for figures in measured.values() for figure in figures]
    shared, found = history.changes(before, now), history.slower(before, now)
    faster = sum(change.factor < 1 / history.TOLERATED for change in shared)
    print(
        f"Of {len(shared)} rows that {version} has, {faster} take at least a tenth less by their"
        f" ratio to the reference, and {len(found)} at least a tenth more."
    )
    for change in found:
        print(
            f"  {change.now.table}, {change.now.row}: {change.factor:.2f} times"
            f" ({change.before.ratio:.3g} → {change.now.ratio:.3g} of {change.now.reference})"
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
