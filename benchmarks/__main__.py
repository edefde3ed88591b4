"""python -m benchmarks: run every benchmark and print one table each."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks import (
    capacity,
    console,
    device,
    form,
    handshake,
    history,
    hostile,
    hostile_load,
    intervals,
    parsers,
    partitions,
    planning,
    plans,
    points,
    regression,
    relations,
    relay,
    release,
    scale,
    selection,
    serve_load,
    simulate,
    soak,
    startup,
    store,
    way,
    web,
    wishes,
)
from benchmarks.every_statistic import STATISTICS
from benchmarks.timing import Figure

TABLES: Mapping[str, Callable[..., list[Figure] | None]] = {
    "simulate": simulate.table,
    "release": release.table,
    "scale": scale.table,
    "startup": startup.table,
    "device": device.table,
    "form": form.table,
    "store": store.table,
    "way": way.table,
    "serve_load": serve_load.table,
    "handshake": handshake.table,
    "capacity": capacity.table,
    "points": points.table,
    "hostile": hostile.table,
    "parsers": parsers.table,
    "partitions": partitions.table,
    "attacks": hostile_load.judged,
    "soak": soak.table,
    "planning": planning.table,
    "regression": regression.table,
    "selection": selection.table,
    "intervals": intervals.table,
    "relations": relations.table,
    "plans": plans.table,
    "wishes": wishes.table,
    "web": web.table,
    "console": console.table,
    "relay": relay.table,
}

QUICK = ("intervals", "plans", "relations", "relay", "wishes")
"""Benchmarks that also have a quick version."""
AGAIN = 2
"""How often to repeat a table that has a row slower than in the last release."""


def main() -> int:
    """Run the requested benchmarks and return 1 if a row is slower than in the last release."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(TABLES)}; all by default")
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
        if name not in TABLES:
            parser.error(f"no benchmark is called {name!r}")
    measured: dict[str, list[Figure]] = {}
    for name in asked.names or TABLES:
        run = partial(TABLES[name], quick=asked.quick) if name in QUICK else TABLES[name]
        if name == "soak":
            run = partial(soak.table, asked.hours)
        elif name == "intervals":
            run = partial(run, page=asked.page, seed=asked.seed, campaigns=asked.campaigns)
            run = partial(run, statistics=asked.statistic or ())
        elif name == "relations":
            run = partial(run, seed=asked.seed)
        elif name == "attacks":
            run = partial(hostile_load.judged, asked.minutes)
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


def _compare(
    measured: dict[str, list[Figure]], before: Sequence[Figure], version: str
) -> list[history.Change]:
    """Print and return slower rows; a table that has one is measured again."""
    for name, figures in measured.items():
        for _ in range(AGAIN):
            if history.slower(before, measured[name]):
                print(f"{name}: slower than in {version}; measured again")
                measured[name] = history.least(figures, TABLES[name]() or [])
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
