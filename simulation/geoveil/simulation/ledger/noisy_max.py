"""Private selection using smooth sensitivity [SNM]: percentiles, trees and forests.

A percentile's figure depends on few numbers of a dataset: how many entries it has and their sum,
the percentile, how often it occurs, and j. So it is computed without the data.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from geoveil.selection import SmoothUtilities
from geoveil.simulation.ledger.reproduction import Numbers, Told, bisected, readable
from geoveil.simulation.selection import forest, tree
from geoveil.simulation.selection.counts import PUBLISHED_NOISE, published_mechanism
from geoveil.simulation.selection.experiment import OPEN, Options, SelectionRow
from geoveil.simulation.selection.percentile import published_dampening
from geoveil.simulation.selection.tables import ADULT_EDGES, Dataset, read_table, table

_ENTRIES = 4_096
_FLOOR = 0.01
"""S is the greater of e^{−(2j+1)ε} and this in the authors' code."""
_NEAR = 5.0
"""Absolute expected errors that far apart are alike, as the paper puts it."""
_STORED = (
    0.1, 0.1269, 0.1610, 0.2043, 0.2593, 0.3290, 0.4175, 0.5298, 0.6723, 0.8532, 1.0826, 1.3738,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Percentile:
    """What the error depends on: the sum of the entries, the value, how often it occurs, and j."""

    total: int
    value: int
    repeats: int
    j: int

    def error(self, epsilon: float, mechanism: str) -> float:
        """Return |x_k − E[A]| of LD as printed, or of SNM-T as in the authors' code."""
        indicator = (np.arange(_ENTRIES) < self.repeats).astype(np.float64)
        if mechanism == "LD":
            law = published_dampening(epsilon, indicator, self.j)
        else:
            known = published_mechanism(epsilon, _ENTRIES, PUBLISHED_NOISE["SNM-T"])
            bound = max(math.exp(-(2 * self.j + 1) * epsilon), _FLOOR)
            law = known.probabilities(SmoothUtilities(indicator, bound, beta=known.beta))
        hit = float(law[: self.repeats].sum())
        rest = (self.total - self.repeats * self.value) / (_ENTRIES - self.repeats)
        return (1 - hit) * abs(rest - self.value)


_PERCENTILES: Mapping[tuple[str, int], _Percentile] = {
    ("HEPTH", 50): _Percentile(347_414, 41, 12, 2),
    ("HEPTH", 90): _Percentile(347_414, 236, 7, 0),
    ("HEPTH", 99): _Percentile(347_414, 409, 2, 0),
    ("PATENT", 50): _Percentile(27_948_226, 7_761, 2, 0),
    ("PATENT", 90): _Percentile(27_948_226, 10_776, 2, 0),
    ("PATENT", 99): _Percentile(27_948_226, 13_835, 2, 0),
}


def _near(known: _Percentile, mechanism: str, epsilon: float) -> bool:
    return known.error(epsilon, mechanism) <= _NEAR


def _percentiles(options: Options) -> Iterator[Told]:
    for epsilon in _STORED[::4] if options.quick else _STORED:
        quantity = f"SNM-T as in the authors' code, ε = {epsilon:.4f}"
        yield "HEPTH, p = 50", quantity, _PERCENTILES["HEPTH", 50].error(epsilon, "SNM-T")
    for (name, p), known in list(_PERCENTILES.items())[: 1 if options.quick else None]:
        smooth, local = (
            bisected(partial(_near, known, mechanism), 0.01, 200.0, 30)
            for mechanism in ("SNM-T", "LD")
        )
        yield f"{name}, p = {p}", "budget that SNM-T saves against LD", 1 - smooth / local


def _accuracies(place: str, rows: Sequence[SelectionRow]) -> Iterator[Told]:
    for row in rows:
        if row.mechanism in PUBLISHED_NOISE:
            quantity = f"{row.mechanism}, ε = {row.epsilon:g}"
            yield place, quantity, row.value, row.standard_error


def _given(options: Options) -> Iterator[Dataset]:
    return readable(options.data, (".csv", ".parquet", ".csv.gz"), read_table)


_ROWS_OF = {21_574: "NLTCS", 47_461: "ACS", 4_732: "Compas"}


def named(data: Dataset) -> str:
    """Return the name that the papers give to a table of so many rows, or its own."""
    return _ROWS_OF.get(len(data), data.name)


def _trees(options: Options) -> Iterator[Told]:
    setting = tree.QUICK if options.quick else tree.TreeSetting(most_draws=4)
    chosen = tuple(c for c in tree.CONTESTANTS if c.name in PUBLISHED_NOISE)
    tables = [data for data in _given(options) if named(data) in ("Adult", "NLTCS", "ACS")]
    for data in (table("adult").discretised(ADULT_EDGES), *tables):
        coded = data if named(data) == "Adult" else data.coded()
        for row in tree.rows_of(coded, setting, options.seed, chosen):
            yield from _accuracies(f"{named(data)}, {row.setting}", [row])


def _forests(options: Options) -> Iterator[Told]:
    setting = forest.QUICK if options.quick else forest.ForestSetting(executions=5, draws=4)
    asked = [(table(name), depth) for name, depth in setting.depths.items()]
    asked += [(data, 5) for data in _given(options) if named(data) == "Compas"]
    for data, depth in asked:
        contestants = forest.one_margin(data)
        rows = list(forest.rows_of(data, depth, setting, options.seed, contestants))
        yield from _accuracies(named(data), rows)
        level = next(row for row in rows if row.standing == OPEN)
        yield named(data), "WDP", level.value, level.standard_error


NUMBERS: Mapping[str, Numbers] = {
    "snm-figure-2": _percentiles,
    "snm-figure-4": _trees,
    "snm-figure-5": _forests,
}
"""Row of the ledger → what computes its numbers."""
